"""A database that is lost entirely: its tables come back from their logs, with what these hold."""

from pathlib import Path

import pytest

import deltasql
from aging import DAY, Stage
from builders import NO_MIRROR, a_remove, a_table, an_add, ids, paths, rows
from commands import data
from deltasql.errors import ImportDifferenceError, LogGapError, OwnershipError, TableExistsError
from deltasql.protocol.actions import DomainMetadata
from deltasql.protocol.log_names import commit_key
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants
from readers import READERS, read_deltasql


def fill(catalog, table) -> None:
    table.append(rows(1, 2, day="a"), commit_id="first")
    table.append(rows(3, day="b/é%"))
    table.overwrite(rows(4, 5), where="day = 'a'", txn=("loader", 7))
    table.commit([DomainMetadata(domain="d", configuration="{}", removed=False)])
    table.alter(properties={"deltasql.mirror.checkpoint_interval": "5", "x": "y"})
    with catalog.transaction(commit_id="both") as tx:
        tx.table("orders").append(rows(6))
    table.delete("day = 'b/é%'")


def described(table) -> dict:
    """Everything that must come back."""
    found = {}
    for entry in table.history():
        snapshot = table.snapshot(version=entry.version)
        found[entry.version] = (
            entry.committed_at,
            entry.commit_id,
            entry.operation,
            entry.operation_params,
            entry.transaction_id,
            entry.adds,
            entry.removes,
            entry.bytes_added,
            entry.digest,
            snapshot.metadata,
            snapshot.protocol,
            snapshot.txns(),
            snapshot.domains(),
            paths(table, version=entry.version),
        )
    return found


@pytest.mark.req("R99")
def test_a_lost_database_comes_back_from_the_log(catalog_uri, second_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        fill(catalog, table)
        table.wait_mirrored()
        before, table_id = described(table), table.table_id
        place, expected = table.location, read_deltasql(table)
    with deltasql.connect(second_uri) as catalog:
        rebuilt = catalog.mirror.rebuild("orders", place)
        table = catalog.table("orders")
        assert (rebuilt.first, rebuilt.version, rebuilt.unreachable) == (0, 7, 0)
        assert table.table_id == table_id
        assert described(table) == before
        assert {entry.origin for entry in table.history()} == {"import"}
        check_invariants(catalog, "orders")
        assert catalog.mirror.verify("orders") == []
        assert read_deltasql(table) == expected
        assert table.append(rows(1, 2), commit_id="first") == 1  # its tokens are known
        assert table.append(rows(9), txn=("loader", 7)) == 3  # and its applications
        assert ids(table, where="id >= 6") == [6]  # and its statistics
        assert table.append(rows(10)) == 8
        check_invariants(catalog, "orders")
        for read in READERS.values():
            assert read(place.removeprefix("file://")) == read_deltasql(table)


def test_the_lost_database_is_shut_out(catalog_uri, second_uri, tmp_path):
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as old:
        table = a_table(old, tmp_path)
        table.append(rows(1))
        with deltasql.connect(catalog_uri) as mirrored:
            mirrored.mirror.run_once()
        with deltasql.connect(second_uri) as catalog:
            catalog.mirror.rebuild("orders", table.location)
            assert catalog.table("orders").append(rows(2)) == 2
        with deltasql.connect(catalog_uri) as back:
            with pytest.raises(OwnershipError):
                back.table("orders").append(rows(3))
            assert back.table("orders").version == 1
            assert back.mirror.status("orders")["mirrored_through"] == 1
            with pytest.raises(OwnershipError):
                back.mirror.checkpoint("orders", 1)
        with deltasql.connect(second_uri) as catalog:
            assert ids(catalog.table("orders")) == [1, 2]
            check_invariants(catalog, "orders")


@pytest.mark.parametrize("vectors", [False, True])
def test_a_log_without_its_beginning_comes_back_from_a_checkpoint(
    catalog_uri, second_uri, tmp_path, vectors
):
    stage = Stage(catalog_uri, tmp_path)
    if vectors:
        stage.table.alter(properties={"delta.checkpoint.writeStatsAsStruct": "true"})
    for number in range(1, 8):
        stage.pass_days(1)
        stage.table.append(rows(number), txn=("a", number))
    (gone, *_) = sorted(paths(stage.table))
    stage.table.commit([a_remove(an_add(gone, day=None, partition_values={}))])
    newest = stage.table.version
    stage.catalog.mirror.checkpoint("orders", newest)
    stage.now += 40 * DAY
    stage.table.append(rows(99))
    removed = stage.catalog.mirror.cleanup("orders")
    assert len(removed) >= newest
    expected, before = read_deltasql(stage.table), described(stage.table)
    stage.catalog.close()
    with deltasql.connect(second_uri, clock=lambda: stage.now) as catalog:
        rebuilt = catalog.mirror.rebuild("orders", stage.table.location)
        assert (rebuilt.first, rebuilt.version) == (newest, newest + 1)
        table = catalog.table("orders")
        assert read_deltasql(table) == expected
        assert described(table) == {v: before[v] for v in (newest, newest + 1)}
        assert catalog.mirror.verify("orders") == []
        check_invariants(catalog, "orders")
        assert table.append(rows(100)) == newest + 2
        catalog.mirror.checkpoint("orders")
        check_invariants(catalog, "orders")
        for read in READERS.values():
            assert read(str(stage.place)) == read_deltasql(table)


def test_what_stands_before_a_gap_is_told(catalog_uri, second_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        for number in range(1, 7):
            table.append(rows(number))
        table.wait_mirrored()
        place = Path(table.location.removeprefix("file://"))
        expected = read_deltasql(table)
        (place / commit_key(2)).unlink()
        with (
            deltasql.connect(second_uri) as second,
            pytest.raises(LogGapError, match="Version 2 is missing"),
        ):
            second.mirror.rebuild("orders", str(place))
        catalog.mirror.checkpoint("orders", 4)
    with deltasql.connect(second_uri) as second:
        rebuilt = second.mirror.rebuild("orders", str(place))
        assert (rebuilt.first, rebuilt.version, rebuilt.unreachable) == (4, 6, 3)
        assert read_deltasql(second.table("orders")) == expected
        left = second.mirror.verify("orders")
        assert [(one.difference, one.version) for one in left] == [
            ("foreign_file", 0),
            ("foreign_file", 1),
            ("foreign_file", 3),
        ]


def test_a_log_that_was_never_ours_is_not_taken(catalog_uri, tmp_path):
    import deltalake

    deltalake.write_deltalake(str(tmp_path / "theirs"), rows(1))
    with deltasql.connect(catalog_uri) as catalog:
        with pytest.raises(OwnershipError, match="nobody's"):
            catalog.mirror.rebuild("theirs", str(tmp_path / "theirs"))
        assert catalog.tables() == []
    assert not (tmp_path / "theirs/_delta_log/_deltasql").exists()


def test_a_table_that_is_there_is_not_rebuilt(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        for name in ("orders", "other"):
            with pytest.raises(TableExistsError):
                catalog.mirror.rebuild(name, table.location)
        assert table.append(rows(2)) == 2
        check_invariants(catalog, "orders")


class StopError(Exception):
    """The process ends here."""


@pytest.mark.parametrize(
    "point",
    [
        "after-take-over",
        "before-import-begins",
        "before-import-part",
        "after-import-part",
        "before-import-window",
        "before-import-segment",
        "after-import-segment",
        "before-import-noted",
        "before-import-ends",
    ],
)
def test_a_rebuild_cut_short_goes_on(catalog_uri, second_uri, tmp_path, monkeypatch, point):
    monkeypatch.setattr("deltasql.imports.read.tasks.TASK_VERSIONS", 2)
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        for number in range(1, 10):
            table.append(rows(number))
        table.wait_mirrored()
        catalog.mirror.checkpoint("orders", 3)
        place = Path(table.location.removeprefix("file://"))
        expected = read_deltasql(table)
    for version in range(3):
        (place / commit_key(version)).unlink()
    passed = []

    def stop(name: str) -> None:
        passed.append(name)
        if name == point and passed.count(point) == (2 if "window" in point else 1):
            raise StopError

    with deltasql.connect(second_uri) as catalog:
        with hooked(stop), pytest.raises(StopError):
            catalog.mirror.rebuild("orders", str(place))
        rebuilt = catalog.mirror.rebuild("orders", str(place))
        assert (rebuilt.first, rebuilt.version) == (3, 9)
        assert read_deltasql(catalog.table("orders")) == expected
        assert catalog.mirror.verify("orders") == []
        check_invariants(catalog, "orders")


@pytest.mark.parametrize("is_resumed", [False, True])
def test_a_rebuild_that_differs_from_its_log_takes_no_commits(
    catalog_uri, second_uri, tmp_path, monkeypatch, is_resumed
):
    """The comparison is asked; a row that came wrong is found, also by the run after a crash."""
    from deltasql.imports.read import rows as importer_rows

    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        for number in range(1, 4):
            table.append(rows(number))
        table.wait_mirrored()
        place = table.location
    real = importer_rows.add_rows

    def wrong(adds, keys, versions):
        found = real(adds, keys, versions)
        sizes = [size + 1 for size in found["size"].to_pylist()]
        return found.set_column(found.column_names.index("size"), "size", [sizes])

    def stop(name: str) -> None:
        if is_resumed and name == "after-import-segment":
            raise StopError

    with deltasql.connect(second_uri) as catalog:
        with monkeypatch.context() as patched:
            patched.setattr("deltasql.imports.read.parse.add_rows", wrong)
            expected = StopError if is_resumed else ImportDifferenceError
            with hooked(stop), pytest.raises(expected):
                catalog.mirror.rebuild("orders", place)
        with pytest.raises(ImportDifferenceError, match="it takes no commits"):
            catalog.mirror.rebuild("orders", place)
        assert catalog.tables() == []
        rebuilt = catalog.mirror.rebuild("orders", place, accept_differences=True)
        assert rebuilt.version == 3


def test_the_command_tells_what_came_back(run, tmp_path):
    uri = f"deltasql://sqlite/{tmp_path}/old.db"
    with deltasql.connect(uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        place = table.location
    (tmp_path / "old.db").unlink()
    run("db", "init")
    (row,) = data(run("recover", "orders", "--from-log", place, "--yes", "-o", "json"))
    assert row == {
        "table": "orders",
        "first": 0,
        "version": 1,
        "unreachable": 0,
        "what": "rebuilt from the log; commits that had not reached it are lost",
    }
    assert "--yes" in run("recover", "x", "--from-log", place, code=2).stderr
    assert len(data(run("history", "orders", "-o", "json"))) == 2
