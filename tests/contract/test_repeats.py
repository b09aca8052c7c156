"""Writes sent twice: by a token, or by the number that an application gives them."""

import threading

import pyarrow as pa
import pytest

import deltasql
from builders import a_table, an_add, ids, rows
from deltasql.errors import BadArgumentError, InvalidCommitError
from deltasql.protocol.actions import CommitInfo
from deltasql.testing.crash_points import hooked

pytestmark = pytest.mark.req("R9")

NUMBERED = {
    "append": lambda table, txn: table.append(rows(txn[1]), txn=txn),
    "overwrite": lambda table, txn: table.overwrite(rows(txn[1]), txn=txn),
    "commit": lambda table, txn: table.commit([an_add(f"f{txn[1]}")], txn=txn),
    "delete": lambda table, txn: table.delete("day = 'a'", txn=txn),
}


@pytest.mark.parametrize("write", list(NUMBERED))
def test_a_repeated_batch_returns_the_version_that_holds_it(table, write):
    first = NUMBERED[write](table, ("job", 1))
    second = NUMBERED[write](table, ("job", 5))
    table.append(rows(9, day="b"))
    assert [NUMBERED[write](table, ("job", number)) for number in (1, 5, 3)] == [
        first,
        second,
        second,
    ]
    assert table.version == 3


@pytest.mark.parametrize("write", ["append", "commit"])
def test_a_batch_sent_by_many_threads_is_one_commit(table, write):
    start, versions, errors = threading.Barrier(4), [], []

    def send():
        start.wait()
        try:
            versions.append(NUMBERED[write](table, ("job", 1)))
        except Exception as error:  # noqa: BLE001 (told by the assertion)
            errors.append(error)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (errors, versions) == ([], [1, 1, 1, 1])


OPTIONS = [
    {"commit_id": ""},
    {"commit_id": 7},
    {"commit_id": "a\x00"},
    {"expected_version": True},
    {"expected_version": "1"},
    {"txn": ("job",)},
    {"txn": ("", 1)},
    {"txn": ("job", "1")},
    {"txn": "jo"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_an_option_that_is_no_token_or_version_is_refused(catalog, table, options):
    (name,) = options
    with pytest.raises(BadArgumentError, match=name):
        table.append(rows(1), **options)
    with pytest.raises(BadArgumentError, match=name):
        table.commit([an_add("f")], **options)
    if name != "expected_version":
        with pytest.raises(BadArgumentError, match=name):
            catalog.transaction(**options)
    assert (table.version, ids(table)) == (0, [])


OTHER_WRITES = {
    "rows": lambda table: table.append(rows(1, 2, 3), commit_id="token"),
    "overwrite": lambda table: table.overwrite(rows(1, 2), commit_id="token"),
    "delete": lambda table: table.delete("day = 'a'", commit_id="token"),
    "alter": lambda table: table.alter(properties={"k": "v"}, commit_id="token"),
    "compact": lambda table: table.compact(commit_id="token"),
    "restore": lambda table: table.restore(0, commit_id="token"),
    "actions": lambda table: table.commit([an_add("f")], commit_id="token"),
}


@pytest.mark.parametrize("write", list(OTHER_WRITES))
def test_a_token_that_was_used_for_another_write_is_refused(table, write):
    assert table.append(rows(1, 2), commit_id="token") == 1
    with pytest.raises(InvalidCommitError, match=r"version 1 of orders is WRITE \(Append\) of 2"):
        OTHER_WRITES[write](table)
    assert (table.version, ids(table)) == (1, [1, 2])
    for data in (rows(1, 2), rows(1, 2).to_reader(), rows(1, 2).to_pylist()):
        assert table.append(data, commit_id="token") == 1


def test_a_token_that_was_used_for_other_actions_is_refused(table):
    assert table.commit([an_add("f1"), an_add("f2")], commit_id="token") == 1
    with pytest.raises(InvalidCommitError, match="2 adds and 0 removes; this is WRITE, 1 adds"):
        table.commit([an_add("f3")], commit_id="token")
    assert table.commit([an_add("f1"), an_add("f2")], commit_id="token") == 1


def test_a_name_that_the_caller_gives_the_operation_may_change_from_try_to_try(catalog, table):
    for name in ("LOAD at 9:00", "LOAD at 9:01", None):
        with catalog.transaction(operation=name, commit_id="token") as tx:
            tx.table("orders").append(rows(1, 2))
        assert dict(tx.versions) == {"orders": 1}
    assert ids(table) == [1, 2]


@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "batches", "columns"])
def test_a_retry_is_found_whatever_the_rows_come_as(table, kind):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    given = {
        "pandas": lambda: pandas.DataFrame(rows(1, 2).to_pydict()),
        "polars": lambda: polars.from_arrow(rows(1, 2)),
        "lazy": lambda: polars.from_arrow(rows(1, 2)).lazy().collect(),
        "batches": lambda: rows(1, 2).to_batches()[0],
        "columns": lambda: rows(1, 2).to_reader(),
    }[kind]
    assert [table.append(given(), commit_id="token") for _ in range(3)] == [1, 1, 1]
    assert ids(table) == [1, 2]


def test_a_token_that_another_thread_uses_for_another_write_is_refused(catalog, table):
    """The other write comes between the question for the token and the commit."""
    done = []

    def append_first(name):
        if name in {"before-begin", "before-append-call"} and not done:
            done.append(name)
            done.append(table.append(rows(1, 2), commit_id="token"))

    with hooked(append_first), pytest.raises(InvalidCommitError, match="used before for another"):
        catalog.table("orders").append(rows(1), commit_id="token")
    assert done[1] == 1
    assert (table.version, ids(table)) == (1, [1, 2])


def test_a_caller_can_see_that_a_write_was_a_repeat(catalog_uri, tmp_path):
    events = []
    with deltasql.connect(catalog_uri, sink=events.append) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1), commit_id="token")
        table.append(rows(2), txn=("job", 1))
        assert not [one for one in events if one.name == "commit_repeated"]
        table.append(rows(1), commit_id="token")
        table.append(rows(2), txn=("job", 1))
    assert [one.version for one in events if one.name == "commit_repeated"] == [1, 2]


def test_a_transaction_that_reads_what_it_wrote_can_be_sent_again(catalog, table):
    """The second try reads the first one's commit and has other rows; it is a repeat."""
    table.append(rows(1))
    for _ in range(2):
        with catalog.transaction(commit_id="token") as tx:
            staged = tx.table("orders")
            staged.overwrite(pa.concat_tables([staged.scan().to_arrow(), rows(2)]))
        assert dict(tx.versions) == {"orders": 2}
    for _ in range(2):
        everything = pa.concat_tables([table.scan().to_arrow(), rows(3)])
        assert table.overwrite(everything, commit_id="other") == 3
    assert ids(table) == [1, 2, 3]


def test_metrics_of_any_kind_are_no_error(table):
    for metrics in ({"numOutputRows": "n/a"}, {"numOutputRows": "-1"}, {"numOutputRows": ""}):
        token = str(metrics)
        info = CommitInfo(operation_metrics=metrics)
        versions = [table.commit([info, an_add(token)], commit_id=token) for _ in range(2)]
        assert len(set(versions)) == 1


@pytest.mark.parametrize("write", ["append", "delete"])
def test_an_operation_that_the_caller_names_can_be_sent_again(table, write):
    options = {"operation": "STREAMING UPDATE", "commit_id": "token"}
    table.append(rows(1))
    given = rows(2) if write == "append" else "day = 'a'"
    assert [getattr(table, write)(given, **options) for _ in range(3)] == [2, 2, 2]


def test_a_transaction_that_only_deletes_returns_its_version_when_it_is_sent_again(catalog, table):
    table.append(rows(1))
    for _ in range(3):
        with catalog.transaction(commit_id="token") as tx:
            tx.table("orders").delete("day = 'a'")
        assert dict(tx.versions) == {"orders": 2}
    with catalog.transaction(commit_id="other") as tx:
        tx.table("orders").delete("day = 'a'")
    assert dict(tx.versions) == {}


def test_a_delete_beside_an_append_returns_both_versions_when_they_are_sent_again(
    catalog, table, tmp_path
):
    table.append(rows(1))
    archive = a_table(catalog, tmp_path / "lake", "archive")
    for _ in range(3):
        with catalog.transaction(commit_id="token") as tx:
            tx.table("orders").delete("day = 'a'")
            tx.table("archive").append(rows(1))
        assert dict(tx.versions) == {"orders": 2, "archive": 1}
    assert (ids(table), ids(archive)) == ([], [1])


def test_a_token_of_a_delete_is_refused_for_a_transaction_on_other_tables(catalog, table, tmp_path):
    table.append(rows(1))
    archive = a_table(catalog, tmp_path / "lake", "archive")
    with catalog.transaction(commit_id="token") as tx:
        tx.table("orders").delete("day = 'a'")
    with (
        pytest.raises(InvalidCommitError, match="another transaction \\(orders@2\\)"),
        catalog.transaction(commit_id="token") as tx,
    ):
        tx.table("orders").delete("day = 'a'")
        tx.table("archive").append(rows(1))
    assert (table.version, archive.version) == (2, 0)
