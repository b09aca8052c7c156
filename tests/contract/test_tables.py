"""The contract for every dialect, continued: names, places, history and the end of a table."""

import pytest

import deltasql
from builders import NO_MIRROR, a_table, an_add, ids, rows
from deltasql.errors import (
    BadArgumentError,
    OwnershipError,
    TableExistsError,
    TableNotFoundError,
    TableStateError,
)
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants


class StopError(BaseException):
    """The process ends here."""


def test_names_and_places_are_taken_once(catalog, table, tmp_path):
    with pytest.raises(TableExistsError):
        a_table(catalog, tmp_path)
    with pytest.raises(TableExistsError):
        catalog.create_table("other", location=table.location, schema=rows(1).schema)
    again = catalog.create_table(
        "orders", location=table.location, schema=rows(1).schema, exist_ok=True
    )
    assert again.table_id == table.table_id


def test_rename_keeps_the_table_and_frees_the_name(catalog, table, tmp_path):
    table.append(rows(1))
    catalog.rename("orders", "sales.orders")
    assert table.name == "sales.orders"
    assert catalog.table("sales.orders").version == 1
    with pytest.raises(TableNotFoundError):
        catalog.table("orders")
    a_table(catalog, tmp_path)
    with pytest.raises(TableExistsError):
        catalog.rename("orders", "sales.orders")


REPEATED = {
    "append": lambda table: table.append(rows(9), commit_id="token"),
    "overwrite": lambda table: table.overwrite(rows(9), commit_id="token"),
    "delete": lambda table: table.delete("day = 'a'", commit_id="token"),
    "commit": lambda table: table.commit([an_add("f")], commit_id="token"),
    "compact": lambda table: table.compact(commit_id="token"),
    "alter": lambda table: table.alter(properties={"k": "v"}, commit_id="token"),
    "restore": lambda table: table.restore(version=1, commit_id="token"),
}


@pytest.mark.parametrize("operation", list(REPEATED))
def test_an_operation_repeated_with_its_token_is_one_commit(catalog, table, operation):
    table.append(rows(1))
    table.append(rows(2))
    version = REPEATED[operation](table)
    table.commit([an_add("later")])
    assert REPEATED[operation](table) == version
    assert table.version == version + 1
    assert [e.version for e in table.history() if e.commit_id == "token"] == [version]


@pytest.mark.parametrize("purge", [False, True])
def test_a_dropped_table_is_gone_and_takes_no_commit(catalog, table, tmp_path, purge):
    table.append(rows(1))
    place = tmp_path / table.location.rsplit("/", 1)[-1]
    catalog.drop("orders", purge=purge)
    assert catalog.tables() == []
    with pytest.raises(TableStateError, match="dropped"):
        table.commit([an_add("x")])
    assert any(place.rglob("*.parquet")) is not purge
    assert (place / "_delta_log" / f"{0:020d}.json").exists() is not purge


@pytest.mark.parametrize("name", ["", "a" * 300, "tab\there", " x"])
def test_bad_names_are_refused(catalog, tmp_path, name):
    with pytest.raises(BadArgumentError):
        catalog.create_table(name, location=str(tmp_path / "x"), schema=rows(1).schema)
    assert not (tmp_path / "x").exists()


ODD_NAMES = ["o'hara", 'say "hi"', "日本", "a;drop table dl_tables", "100%", "ü.ß"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_round_trip(catalog, tmp_path, name):
    made = catalog.create_table(name, location=str(tmp_path / "odd"), schema=rows(1).schema)
    made.append(rows(1))
    assert [info.name for info in catalog.tables()] == [name]
    assert ids(catalog.table(name)) == [1]


@pytest.mark.req("R91")
def test_history_tells_who_what_and_when(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri, committer="ada", client="host-7") as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1, 2), user_metadata="first load")
        table.delete("day = 'a'")
        newest, middle, oldest = table.history()
        assert [newest.operation, middle.operation, oldest.operation] == [
            "DELETE",
            "WRITE",
            "CREATE TABLE",
        ]
        assert (middle.committer, middle.client, middle.user_metadata) == (
            "ada",
            "host-7",
            "first load",
        )
        assert middle.operation_metrics["numOutputRows"] == "2"
        assert newest.operation_params == {"predicate": "[\"day = 'a'\"]"}
        assert (newest.adds, newest.removes) == (0, 1)
        changes = [(one.change, one.version) for one in table.changes(0)]
        assert changes == [("added", 1), ("remove", 2)]


def test_detach_completes_the_log_and_ends_our_hold(catalog, table):
    table.append(rows(1))
    version = table.detach()
    assert table.state == "detached"
    log = table.snapshot().protocol
    assert "deltasqlManaged" not in (log.writer_features or ())
    assert catalog.mirror.status("orders")["mirrored_through"] == version
    with pytest.raises(TableStateError, match="detached"):
        table.append(rows(2))


def test_another_catalog_takes_a_detached_log_over(catalog, table, tmp_path):
    """Even if the process that detached it died before its marker was gone."""

    def stop(name: str) -> None:
        if name == "before-marker-removed":
            raise StopError

    table.append(rows(1))
    with hooked(stop), pytest.raises(StopError):
        table.detach()
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/other.db") as other:
        with pytest.raises(OwnershipError, match="managed by catalog") as refused:
            other.import_table(table.location, "orders", engine="local")
        assert "Detach the table there first" in refused.value.advice
        assert table.detach() == table.detach() == table.version
        other.import_table(table.location, "orders", engine="local")
        other.cutover("orders")
        other.table("orders").append(rows(2))
        assert ids(other.table("orders")) == [1, 2]
        check_invariants(other, "orders")


def test_without_a_mirror_nothing_is_written_to_the_log(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        table.commit([an_add("x")])
        assert not list(tmp_path.rglob("*.json"))
        assert catalog.mirror.status("orders")["lag_versions"] == 2
        table.wait_mirrored()
        check_invariants(catalog, "orders")


def test_in_commit_timestamps_increase_while_the_clock_jumps_back(catalog_uri, tmp_path):
    ticks = iter([5_000, 5_000, 4_000, 1_000, 9_000, 2_000] + [2_000] * 500)
    with deltasql.connect(catalog_uri, clock=lambda: next(ticks), settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        for number in range(6):
            table.commit([an_add(f"f{number}")])
        times = [entry.committed_at for entry in reversed(table.history())]
        assert times == sorted(set(times))
        assert len(times) == 7


def test_a_second_connection_sees_the_same_tables(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as one, deltasql.connect(catalog_uri) as other:
        a_table(one, tmp_path).append(rows(1))
        assert ids(other.table("orders")) == [1]
        other.table("orders").append(rows(2))
        assert ids(one.table("orders")) == [1, 2]
        assert one.catalog_id == other.catalog_id


@pytest.mark.req("R37")
def test_a_table_may_choose_its_own_mirror_mode(catalog, table):
    table.alter(properties={"deltasql.mirror.mode": "off"})
    table.append(rows(1))
    status = catalog.mirror.status("orders")
    assert (status["mode"], status["lag_versions"]) == ("off", 1)
    table.alter(unset=["deltasql.mirror.mode"])
    assert catalog.mirror.status("orders")["mode"] == "inline"
    check_invariants(catalog, "orders")
