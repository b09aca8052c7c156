"""Expired log files go by Delta's rules, and never what SQL and a checkpoint do not cover."""

from pathlib import Path

import pytest

import deltasql
from builders import a_table, rows
from deltasql.errors import CheckpointError, OwnershipError
from deltasql.log.owner_marker import OWNER_KEY
from deltasql.protocol.log_names import checkpoint_path, commit_key
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants
from readers import READERS, read_deltasql

DAY = 24 * 3600 * 1000
START = 1_800_000_000_000 // DAY * DAY


@pytest.fixture
def clock():
    return {"now": START}


@pytest.fixture
def catalog(catalog_uri, clock):
    with deltasql.connect(catalog_uri, clock=lambda: clock["now"]) as opened:
        opened.create_if_missing()
        yield opened


@pytest.fixture
def table(catalog, clock, tmp_path):
    """A commit a day for forty days, a checkpoint every ten versions."""
    made = a_table(catalog, tmp_path)
    for number in range(1, 41):
        clock["now"] = START + number * DAY
        made.append(rows(number))
        if number % 10 == 0:
            catalog.mirror.checkpoint("orders", number)
    return made


def names(table) -> list[str]:
    folder = Path(table.location.removeprefix("file://")) / "_delta_log"
    return sorted(file.name for file in folder.iterdir() if file.name[0].isdigit())


@pytest.mark.req("R92")
@pytest.mark.parametrize("reader", list(READERS))
def test_what_is_older_than_the_retention_goes_up_to_a_checkpoint(catalog, table, clock, reader):
    clock["now"] = START + 55 * DAY  # thirty days before: version 25, whose checkpoint is 20
    removed = catalog.mirror.cleanup("orders")
    assert names(table)[0] == f"{20:020d}.checkpoint.parquet"
    assert len(removed) == 21  # versions 0 to 19 and the checkpoint of 10
    assert READERS[reader](table.location.removeprefix("file://")) == read_deltasql(table)
    assert catalog.mirror.cleanup("orders") == ()
    assert catalog.mirror.verify("orders") == []
    assert table.snapshot(version=3).version == 3  # SQL forgets nothing
    table.append(rows(99))
    check_invariants(catalog, "orders")


def test_nothing_goes_before_its_time_or_against_the_tables_word(catalog, table, clock):
    clock["now"] = START + 39 * DAY + DAY - 1  # thirty days before: version 9 has no checkpoint
    before = names(table)
    assert catalog.mirror.cleanup("orders") == ()
    clock["now"] = START + 400 * DAY
    table.alter(properties={"delta.enableExpiredLogCleanup": "false"})
    assert catalog.mirror.cleanup("orders") == ()
    assert set(before) <= set(names(table))


def test_a_dry_run_tells_and_removes_nothing(catalog, table, clock):
    clock["now"] = START + 55 * DAY
    before = names(table)
    assert len(catalog.mirror.cleanup("orders", dry_run=True)) == 21
    assert names(table) == before


def test_a_checkpoint_that_is_not_right_keeps_everything(catalog, table, clock):
    clock["now"] = START + 55 * DAY
    place = Path(table.location.removeprefix("file://"))
    good = (place / checkpoint_path(10)).read_bytes()
    (place / checkpoint_path(20)).write_bytes(good)
    before = names(table)
    with pytest.raises(CheckpointError):
        catalog.mirror.cleanup("orders")
    assert names(table) == before


def test_a_log_that_is_not_ours_is_left_alone(catalog, table, clock):
    clock["now"] = START + 55 * DAY
    place = Path(table.location.removeprefix("file://"))
    marker = (place / OWNER_KEY).read_bytes()
    (place / OWNER_KEY).write_bytes(marker.replace(b'"epoch":1', b'"epoch":2'))
    before = names(table)
    with pytest.raises(OwnershipError):
        catalog.mirror.cleanup("orders")
    assert names(table) == before


@pytest.mark.parametrize(
    ("point", "passages"),
    [
        ("before-log-floor", 1),
        ("after-log-floor", 1),
        ("after-log-delete", 1),
        ("after-log-delete", 7),
    ],
)
def test_a_cleanup_cut_short_leaves_a_log_that_opens(catalog, table, clock, point, passages):
    clock["now"] = START + 55 * DAY

    class StopError(Exception):
        pass

    passed = []

    def stop(name: str) -> None:
        passed.append(name)
        if name == point and passed.count(point) == passages:
            raise StopError

    with hooked(stop), pytest.raises(StopError):
        catalog.mirror.cleanup("orders")
    expected = read_deltasql(table)
    for read in READERS.values():
        assert read(table.location.removeprefix("file://")) == expected
    place = Path(table.location.removeprefix("file://"))
    left = [v for v in range(20) if (place / commit_key(v)).exists()]
    assert left == list(range(len(left)))  # the old part is whole from the beginning
    catalog.mirror.cleanup("orders")
    check_invariants(catalog, "orders")
