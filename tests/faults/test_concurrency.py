"""Many processes commit to one table: nothing is lost, doubled or refused without a reason."""

import pytest

import deltasql
from builders import a_table
from deltasql.protocol.actions import Add, Remove
from deltasql.protocol.codec import decode_commit
from deltasql.testing import inspect
from deltasql.testing.invariants import check_invariants
from processes import finish, start


def _appends(catalog_uri, tmp_path, *, processes: int, commits: int, mirror: str) -> None:
    with deltasql.connect(catalog_uri) as catalog:
        a_table(catalog, tmp_path)
        running = [
            start("append_many", catalog_uri, "orders", str(number), str(commits), mirror)
            for number in range(processes)
        ]
        acknowledged = {}
        for process in running:
            acknowledged |= finish(process)
        expected = processes * commits
        assert len(acknowledged) == expected
        assert sorted(acknowledged.values()) == list(range(1, expected + 1))
        check_invariants(catalog, "orders", acknowledged=acknowledged)
        assert catalog.table("orders").snapshot().files(["path"]).num_rows == expected


def test_blind_appends_of_processes_all_land(catalog_uri, tmp_path):
    _appends(catalog_uri, tmp_path, processes=4, commits=20, mirror="inline")


@pytest.mark.verify
@pytest.mark.req("R86")
@pytest.mark.timeout(600)
def test_sixteen_processes_append_a_hundred_times_each(catalog_uri, tmp_path):
    _appends(catalog_uri, tmp_path, processes=16, commits=100, mirror="inline")


@pytest.mark.soak
def test_many_processes_append_for_long(catalog_uri, tmp_path):
    _appends(catalog_uri, tmp_path, processes=32, commits=500, mirror="inline")


def _mixed(catalog_uri, tmp_path, *, processes: int, commits: int) -> dict[str, int]:
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        running = [
            start("mixed", catalog_uri, "orders", str(number), str(commits), "off")
            for number in range(processes)
        ]
        acknowledged, refused, unchanged = {}, {}, []
        for process in running:
            told = finish(process)
            acknowledged |= told["acknowledged"]
            refused |= told["refused"]
            unchanged += told["unchanged"]
        # every try ended one way or the other, and no version has two commits
        assert len(acknowledged) + len(refused) + len(unchanged) == processes * commits
        assert sorted(acknowledged.values()) == list(range(1, len(acknowledged) + 1))
        check_invariants(catalog, "orders", acknowledged=acknowledged)
        history = {entry.version: entry for entry in table.history()}
        for token, context in refused.items():
            winner = history[context["version"]]
            assert winner.commit_id == context["winner_commit_id"] != token
            assert context["read_version"] < context["version"]
            assert context["operation"]
            assert token not in acknowledged
        judged = _judge(catalog, table, history)
        assert judged["blind"]
        return judged


def _judge(catalog, table, history) -> dict[str, int]:
    """Find what should have been refused, from the bytes alone and not by the product's rules.

    A commit that read the partition of its predicate may have no commit between its read version
    and its own that added a file there or removed one that it removes.
    """
    book = inspect(catalog).metastore
    actions = {v: decode_commit(book.payload(table.table_id, v), version=v) for v in history}
    judged = {"blind": 0, "reading": 0}
    for version, entry in history.items():
        predicate = entry.operation_params.get("predicate")
        if predicate is None:
            judged["blind"] += entry.is_blind_append
            continue
        day = predicate.split("'")[1]
        gone = {a.path for a in actions[version] if isinstance(a, Remove)}
        for between in range(entry.read_version + 1, version):
            judged["reading"] += 1
            for action in actions[between]:
                if isinstance(action, Add):
                    assert action.partition_values["day"] != day, (version, between, action.path)
                elif isinstance(action, Remove):
                    assert action.path not in gone, (version, between, action.path)
    return judged


def test_mixed_work_of_processes_is_serializable(catalog_uri, tmp_path):
    _mixed(catalog_uri, tmp_path, processes=4, commits=15)


@pytest.mark.verify
@pytest.mark.timeout(600)
def test_mixed_work_of_sixteen_processes_is_serializable(catalog_uri, tmp_path):
    judged = _mixed(catalog_uri, tmp_path, processes=16, commits=40)
    # few processes may never meet; sixteen do, or the judge has judged nothing
    assert judged["reading"]


def test_readers_and_writers_do_not_stop_each_other(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        a_table(catalog, tmp_path)
        readers = [start("read_often", catalog_uri, "orders", "60") for _ in range(2)]
        writer = start("append_many", catalog_uri, "orders", "w", "40", "off")
        assert len(finish(writer)) == 40
        for reader in readers:
            seen = finish(reader)
            assert seen == sorted(seen)
