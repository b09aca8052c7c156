"""Every row of every append exactly once, whatever happens: seeded runs against a driver."""

import random
from collections import Counter

import pytest

import deltasql
from builders import a_table, rows
from builders import ids as ids_of
from streams import Driver, ids

pytestmark = pytest.mark.req("R26")


class Writer:
    """Commits at random, and knows the rows that a stream has to give."""

    def __init__(self, catalog, tmp_path, chance):
        self.catalog = catalog
        self.table = a_table(catalog, tmp_path)
        self.chance = chance
        self.wanted: list[int] = []

    def commit(self, times=1):
        for _ in range(times):
            kind = self.chance.choice([self.append, self.append, self.many, self.rest])
            kind([len(self.wanted) + at for at in range(self.chance.randint(1, 4))])

    def append(self, new):
        self.table.append(rows(*new, day=self.chance.choice("abc")))
        self.wanted += new

    def many(self, new):
        """Several files in one commit."""
        with self.catalog.transaction() as tx:
            for number in new:
                tx.table("orders").append(rows(number, day=f"d{number}"))
        self.wanted += new

    def rest(self, _):
        """Commits that change no row."""
        if self.chance.random() < 0.5:
            self.table.compact()
        else:
            self.table.alter(properties={"a.b": str(self.table.version)})


SEEDS = [*range(6), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(6, 206))]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_row_once_whatever_happens(tmp_path, seed):
    """Commits at random, batches of any size, restarts and batches that are run again."""
    chance = random.Random(seed)
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    with deltasql.connect(uri) as catalog:
        writer = Writer(catalog, tmp_path, chance)
        writer.commit(chance.choice([0, 8]))
        stream = Driver(uri, "orders", maxFilesPerTrigger=2)
        got: list[int] = []
        for _ in range(25):
            writer.commit(chance.choice([0, 0, 1, 3]))
            if chance.random() < 0.3:
                stream.restart(maxFilesPerTrigger=chance.randint(1, 6))
            found = stream.next()
            if found is not None and chance.random() < 0.3:
                stream.restart()
                assert stream.again() == found
            got += ids(found or [])
        got += [number for batch in stream.drain() for number in ids(batch)]
        assert sorted(got) == writer.wanted
        assert len(writer.wanted) > 10


class Changer(Writer):
    """Changes and deletes rows too."""

    def commit(self, times=1):
        for _ in range(times):
            kinds = [self.append, self.append, self.many, self.rest, self.change, self.back]
            self.chance.choice(kinds)([len(self.wanted) + at for at in range(3)])

    def change(self, new):
        day = self.chance.choice("abc")
        if self.chance.random() < 0.5:
            self.table.delete(f"day = '{day}'")
        else:
            self.table.overwrite(rows(*new, day=day), where=f"day = '{day}'")
            self.wanted += new

    def back(self, _):
        self.table.restore(version=self.chance.randint(0, self.table.version))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_feed_tells_how_the_table_came_to_be(tmp_path, seed):
    """Inserts less deletes, from whatever beginning, are the rows of the table."""
    chance = random.Random(seed)
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    with deltasql.connect(uri) as catalog:
        writer = Changer(catalog, tmp_path, chance)
        writer.table.alter(properties={"delta.enableChangeDataFeed": "true"})
        writer.commit(chance.choice([0, 8]))
        stream = Driver(uri, "orders", readChangeFeed="true", maxFilesPerTrigger=2)
        rows_now: Counter[int] = Counter()
        told = 0
        for _ in range(20):
            writer.commit(chance.choice([0, 1, 3]))
            if chance.random() < 0.3:
                stream.restart(maxFilesPerTrigger=chance.randint(1, 6))
            for batch in stream.drain() if chance.random() < 0.2 else [stream.next() or []]:
                told += len(batch)
                for row in batch:
                    rows_now[row["id"]] += {"insert": 1, "delete": -1}[row["_change_type"]]
        for batch in stream.drain():
            for row in batch:
                rows_now[row["id"]] += {"insert": 1, "delete": -1}[row["_change_type"]]
        assert sorted(rows_now.elements()) == ids_of(writer.table)
        assert min(rows_now.values()) >= 0
        assert told > len(ids_of(writer.table)) / 2
