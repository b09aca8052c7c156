"""Combinations of partition values without files cost a filter nothing, and no file is lost."""

import random
import threading

import pytest

import deltasql
from builders import NO_MIRROR, a_table, rows

DAYS = [f"d{number}" for number in range(6)]


def days_of(table, version=None) -> list[str]:
    """The combinations that a filter would be decided by."""
    snapshot = table.snapshot(version=version)
    found = snapshot.database.fetch_all(
        "partitions", table_id=table.table_id, version=snapshot.version
    )
    return sorted(text for (text,) in found)


@pytest.fixture
def two(catalog_uri, tmp_path):
    """A table, opened by two processes that know nothing of each other's caches."""
    with (
        deltasql.connect(catalog_uri, settings=NO_MIRROR) as one,
        deltasql.connect(catalog_uri, settings=NO_MIRROR) as other,
    ):
        table = a_table(one, tmp_path)
        yield table, other.table("orders")


def test_an_emptied_combination_is_passed_over_but_not_by_time_travel(two):
    table, _ = two
    for number, day in enumerate(DAYS):
        table.append(rows(number, day=day))
    full = table.version
    assert len(days_of(table)) == len(DAYS)
    for day in DAYS[1:]:
        table.delete(f"day = '{day}'")
    assert days_of(table) == ['{"day":"d0"}']
    assert len(days_of(table, full)) == len(DAYS)
    for day in DAYS:
        assert table.scan(where=f"day = '{day}'", version=full).to_arrow().num_rows == 1
        assert table.scan(where=f"day = '{day}'").to_arrow().num_rows == int(day == "d0")


def test_a_writer_that_knew_the_combination_brings_it_back(two):
    """Its cache says that SQL has the combination; since then another process emptied it."""
    table, other = two
    for number in range(3):
        table.append(rows(number, day="a"))
        other.delete("day = 'a'")
        assert days_of(table) == []
        table.append(rows(10 + number, day="a"))
        assert days_of(table) == ['{"day":"a"}']
        assert table.scan(where="day = 'a'").to_arrow().num_rows == 1
        assert other.scan(where="day = 'a'").to_arrow().num_rows == 1
        table.delete("day = 'a'")


def test_a_commit_that_replaces_the_files_of_a_combination_leaves_it(two):
    table, other = two
    table.append(rows(1, day="a"))
    other.overwrite(rows(2, day="a"), where="day = 'a'")
    assert days_of(table) == ['{"day":"a"}']
    assert table.scan(where="day = 'a'").to_arrow().num_rows == 1


@pytest.mark.parametrize("seed", range(3))
def test_filters_find_what_a_whole_read_finds(two, seed):
    chance = random.Random(seed)
    handles = list(two)
    for number in range(40):
        handle, day = chance.choice(handles), chance.choice(DAYS)
        if chance.random() < 0.5:
            handle.append(rows(number, day=day))
        else:
            handle.delete(f"day = '{day}'")
    table = handles[0]
    for version in chance.sample(range(table.version + 1), 12):
        whole = table.scan(version=version).to_arrow()
        for day in DAYS:
            expected = sorted(row["id"] for row in whole.to_pylist() if row["day"] == day)
            found = table.scan(where=f"day = '{day}'", version=version).to_arrow()
            assert sorted(found["id"].to_pylist()) == expected, (seed, version, day)


def test_appends_in_groups_meet_deletes(two):
    """Groups are planned behind the lock: none trusts what was known before a delete."""
    table, other = two
    stop = threading.Event()

    def delete():
        while not stop.is_set():
            for day in DAYS:
                other.delete(f"day = '{day}'")

    def append(first: int):
        for number in range(15):
            table.append(rows(first + number, day=DAYS[number % len(DAYS)]))

    deleting = threading.Thread(target=delete)
    deleting.start()
    appending = [threading.Thread(target=append, args=(100 * n,)) for n in range(4)]
    for thread in appending:
        thread.start()
    for thread in appending:
        thread.join()
    stop.set()
    deleting.join()
    whole = table.scan().to_arrow().to_pylist()
    for day in DAYS:
        expected = sorted(row["id"] for row in whole if row["day"] == day)
        found = table.scan(where=f"day = '{day}'").to_arrow()
        assert sorted(found["id"].to_pylist()) == expected, day
