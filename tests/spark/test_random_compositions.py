"""One DataFrame used many times: joins, unions, views and caches of it, while others commit.

Every DataFrame has a twin of plain rows, those of its version; whatever is made of both is equal.
"""

import random
from dataclasses import dataclass
from typing import Any

import pytest

import deltasql
import deltasql.spark
from builders import a_table, rows
from readers import read_deltasql
from spark_frames import COLUMNS

pytestmark = pytest.mark.req("R26")
PUSHES = "spark.sql.python.filterPushdown.enabled"
DAYS = ("a", "b c", "d")
FILTERS = [
    "day = 'a'",
    "day <> 'a'",
    "id < 10",
    "id between 5 and 15 and day = 'd'",
    "day in ('b c', 'd') or id % 3 = 0",
    "name is not null and upper(day) = 'A'",
    "false",
]


@dataclass
class Twins:
    """The same rows twice: by way of deltasql, and as plain rows."""

    ours: Any
    plain: Any

    def map(self, change):
        return Twins(change(self.ours), change(self.plain))

    def join(self, other, change):
        return Twins(change(self.ours, other.ours), change(self.plain, other.plain))

    def limited(self):
        """Keep joins of joins small, by rows that both have."""
        return self.map(lambda frame: frame.where("id < 12"))

    def expect_equal(self, told):
        found, expected = (sorted(map(tuple, one.collect()), key=str) for one in self.both)
        assert found == expected, told
        assert self.ours.count() == len(expected), told

    @property
    def both(self):
        return self.ours, self.plain


class Script:
    """Random steps on one table; `told` says which, for the one that fails."""

    def __init__(self, session, uri, table, seed):
        self.session, self.uri, self.table = session, uri, table
        self.chance = random.Random(seed)
        self.frames: list[Twins] = []
        self.cached: list[Any] = []
        self.told: list[str] = [f"seed {seed}"]
        self.views = 0

    def step(self):
        names = ["commit", "load", "derive", "derive", "combine", "combine", "view", "cache", "use"]
        name = self.chance.choice(names) if self.frames else "load"
        self.told.append(name)
        getattr(self, name)()

    def commit(self):
        kind = self.chance.choice(["append", "append", "delete", "overwrite", "compact"])
        day, number = self.chance.choice(DAYS), self.chance.randrange(20)
        self.told[-1] += f" {kind} {day} {number}"
        match kind:
            case "append":
                self.table.append(rows(number, number + 1, day=day))
            case "delete":
                self.table.delete(f"day = '{day}'")
            case "overwrite":
                self.table.overwrite(rows(number, day=day), where=f"day = '{day}'")
            case "compact":
                self.table.compact()

    def load(self):
        version = self.chance.randint(0, self.table.version)
        way = self.chance.choice(["read", "read where", "source", "attached"])
        where = self.chance.choice(FILTERS)
        self.told[-1] += f" {way} {version} {where}"
        expected = self._rows(version)
        match way:
            case "read":
                frame = deltasql.spark.read(self.session, self.uri, "orders", version=version)
            case "read where":
                given = {"version": version, "where": where}
                frame = deltasql.spark.read(self.session, self.uri, "orders", **given)
                expected = expected.where(where)
            case "source":
                options = {"uri": self.uri, "table": "orders", "versionAsOf": version}
                frame = self.session.read.format("deltasql").options(**options).load()
            case "attached":
                deltasql.spark.attach(self.session, self.uri)
                frame, expected = self.session.table("orders"), self._rows(self.table.version)
        self.frames.append(Twins(frame, expected))

    def _rows(self, version):
        found = [(r["id"], r["name"], r["day"]) for r in read_deltasql(self.table, version=version)]
        return self.session.createDataFrame(found, COLUMNS)

    def derive(self):
        where = self.chance.choice(FILTERS)
        changes = [
            lambda frame: frame.where(where),
            lambda frame: frame.selectExpr("id + 1 as id", "name", "day"),
            lambda frame: frame.distinct(),
            lambda frame: frame.groupBy("name", "day").agg({"id": "max"}).toDF("name", "day", "id"),
        ]
        change = self.chance.choice(changes)
        made = self._some().map(lambda frame: change(frame).select("id", "name", "day"))
        self._keep(made)

    def combine(self):
        changes = [
            lambda one, other: one.union(other),
            lambda one, other: one.exceptAll(other),
            lambda one, other: one.intersect(other),
            lambda one, other: one.join(other.select("id"), "id", "left_semi"),
            lambda one, other: one.join(other.select("id"), "id", "left_anti"),
            lambda one, other: (
                one.alias("x").join(other.alias("y"), "id").selectExpr("id", "x.name", "y.day")
            ),
        ]
        change = self.chance.choice(changes)
        one = self._some()
        other = one if self.chance.random() < 0.4 else self._some()
        if self.chance.random() < 0.5:
            where = self.chance.choice(FILTERS)
            other = other.map(lambda frame: frame.where(where))
        self._keep(one.join(other, lambda x, y: change(x, y).select("id", "name", "day")).limited())

    def view(self):
        self.views += 1
        ours, plain = f"ours_{self.views}", f"plain_{self.views}"
        some, where = self._some(), self.chance.choice(FILTERS)
        some.ours.createOrReplaceTempView(ours)
        some.plain.createOrReplaceTempView(plain)
        text = (
            f"select * from {{v}} where {where} union all "
            "select id, name, day from {v} where id = (select max(id) from {v} where day = 'a')"
        )
        made = Twins(*(self.session.sql(text.format(v=view)) for view in (ours, plain)))
        self._keep(made)

    def cache(self):
        some = self._some()
        self.cached.append(some.ours.cache())
        self.use(some)

    def use(self, some=None):
        (some or self._some()).expect_equal(self.told)

    def _some(self):
        return self.chance.choice(self.frames)

    def _keep(self, made):
        made.expect_equal(self.told)
        self.frames.append(made)
        if len(self.frames) > 6:
            self.frames.pop(self.chance.randrange(len(self.frames)))

    def end(self):
        for number, twins in enumerate(self.frames):
            twins.expect_equal([*self.told, f"end {number}"])
        for frame in self.cached:
            frame.unpersist()


def numbers(verify, soak):
    return [
        *(pytest.param(seed, marks=pytest.mark.verify) for seed in range(verify)),
        *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(verify, soak)),
    ]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", numbers(2, 40))
def test_whatever_is_made_of_a_frame_is_right(spark, uri, tmp_path, seed):
    session = spark.spark.newSession()
    session.conf.set(PUSHES, str(seed % 2 == 0).lower())
    # Spark 4.2 fails on unions of plain rows with it: "Can't zip RDDs with unequal numbers …"
    session.conf.set("spark.sql.unionOutputPartitioning", "false")
    with deltasql.connect(uri) as catalog:
        table = a_table(catalog, tmp_path)
        for number in range(6):
            table.append(rows(*range(number, 20, 6), day=DAYS[number % 3]))
        script = Script(session, uri, table, seed)
        for _ in range(14):
            script.step()
        script.end()
    assert script.frames
