"""`mirror repair` of a contest, `fsck` and a taken `--listen` as users meet them: a process."""

import json
import socket

import pytest

import deltasql
from builders import a_table, rows
from foreign import a_foreign_file, put_foreign

REPAIR = ("mirror", "repair", "orders")


@pytest.fixture
def uri(tmp_path):
    return f"deltasql://sqlite/{tmp_path}/c.db"


@pytest.fixture
def contested(uri, tmp_path):
    """Version 1 was made twice, and the foreign writer went on to 2."""
    with deltasql.connect(uri, committer="ada") as catalog:
        table = a_table(catalog, tmp_path)
        for version, number in ((1, 100), (2, 101)):
            put_foreign(table, version, a_foreign_file(table, number), is_blind_append=True)
        table.append(rows(1), commit_id="mine")
        assert table.state == "conflict"


def rows_of(run, *arguments, **options):
    return json.loads(run(*REPAIR, *arguments, "-o", "json", **options).stdout)


def test_without_a_decision_the_plan_for_both_ways_is_shown(run, contested):
    for arguments in ((), ("--dry-run",)):
        plan = rows_of(run, *arguments, code=3)
        assert [(row["difference"], row["version"], row["done"]) for row in plan] == [
            ("commit_conflict", 1, False),
            ("commit_not_in_catalog", 2, False),
        ]
        assert plan[0]["what"].startswith("replace: SQL's commit is put; recommit: becomes version")
        assert plan[1]["what"].startswith("replace: taken away; recommit: becomes version 3 of SQL")
        assert "log: " in plan[0]["detail"]
        assert "--recommit" in plan[0]["action"]
    assert len(json.loads(run("history", "orders", "-o", "json").stdout)) == 2


def test_recommit_shows_its_plan_then_asks_then_does_it(run, contested):
    plan = rows_of(run, "--recommit", "--dry-run")
    assert [row["done"] for row in plan] == [False, False]
    assert plan[0]["what"].startswith("becomes version 2 of SQL; SQL's commit is put; its bytes")
    refused = run(*REPAIR, "--recommit", code=2)
    assert "Commit the foreign commits of orders again" in refused.stderr
    assert "becomes version 2 of SQL" in refused.stderr
    done = rows_of(run, "--recommit", "--yes")
    assert [row["done"] for row in done] == [True, True]
    assert "_delta_log/_deltasql_saved/" in done[0]["what"]
    history = json.loads(run("history", "orders", "-o", "json").stdout)
    assert [(e["version"], e["operation"]) for e in history] == [
        (3, "FOREIGN"),
        (2, "FOREIGN"),
        (1, "WRITE"),
        (0, "CREATE TABLE"),
    ]
    run("fsck", "orders")
    run(*REPAIR, "--recommit", "--yes")
    assert len(json.loads(run("history", "orders", "-o", "json").stdout)) == 4


def test_replace_asks_and_keeps_the_foreign_commits(run, contested):
    run(*REPAIR, "--replace", code=2)
    plan = rows_of(run, "--replace", "--dry-run")
    assert "its bytes are kept in _delta_log/_deltasql_saved/" in plan[1]["what"]
    done = rows_of(run, "--replace", "--yes")
    assert [row["what"].split(";")[0] for row in done] == ["SQL's commit is put", "taken away"]
    assert len(json.loads(run("history", "orders", "-o", "json").stdout)) == 2
    run("fsck", "orders")


def test_a_commit_that_cannot_be_committed_again_is_named_and_the_way_out_too(run, uri, tmp_path):
    with deltasql.connect(uri, committer="ada") as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        put_foreign(table, 2, a_foreign_file(table, 100))
        table.append(rows(2))
    plan = rows_of(run, "--recommit", "--dry-run", code=3)
    assert plan[0]["what"].startswith("cannot be committed again: against version 2 of SQL (WRITE)")
    done = run(*REPAIR, "--recommit", "--yes", code=4)
    assert "error[DS506]: Version 2 in the log of orders (FOREIGN by mallory)" in done.stderr
    assert "--replace" in done.stderr
    assert "error[DS506]" in run(*REPAIR, "--recommit", code=4).stderr  # nothing to ask about
    adopted = run(*REPAIR, "--adopt", code=4)
    assert "error[DS501]: Version 2 of orders is in SQL and, with other bytes" in adopted.stderr
    assert "not both" in run(*REPAIR, "--recommit", "--replace", "--yes", code=2).stderr
    run(*REPAIR, "--replace", "--yes")
    run("fsck")


def test_fsck_is_verify(run, contested):
    one, other = run("fsck", "-o", "json", code=3), run("mirror", "verify", "-o", "json", code=3)
    assert json.loads(one.stdout) == json.loads(other.stdout)
    assert "fsck" in run("--help").stdout


def test_an_address_that_is_taken_is_told_as_such(run, contested):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = run("mirror", "run", "--listen", f"127.0.0.1:{port}", code=2)
    assert f"error[DS104]: Nothing can listen on 127.0.0.1:{port}" in done.stderr
    assert "error[DS104]" in run("mirror", "run", "--listen", "127.0.0.1:99999", code=2).stderr
    assert "error[DS104]" in run("mirror", "run", "--listen", "nowhere.invalid:0", code=2).stderr


def test_a_worker_asked_for_json_logs_json(run, contested):
    done = run("-v", "-o", "json", "mirror", "run", "--once", code=4)
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    alert = next(line for line in lines if line.get("alert") == "mirror_conflict")
    assert (alert["error_code"], alert["severity"]) == ("DS501", "critical")
