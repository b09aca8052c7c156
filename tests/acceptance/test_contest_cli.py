"""`mirror repair --adopt`, `fsck` and a taken `--listen` as users meet them: a process."""

import json
import socket

import pytest

import deltasql
from builders import a_table, rows
from foreign import a_foreign_file, put_foreign

ADOPT = ("mirror", "repair", "orders", "--adopt")


@pytest.fixture
def uri(tmp_path):
    return f"deltasql://sqlite/{tmp_path}/c.db"


@pytest.fixture
def contested(uri, tmp_path):
    with deltasql.connect(uri, committer="ada") as catalog:
        table = a_table(catalog, tmp_path)
        put_foreign(table, 1, a_foreign_file(table, 100))
        table.append(rows(1), commit_id="mine")
        assert table.state == "conflict"


def test_the_plan_is_shown_then_asked_for_then_made(run, contested):
    plan = json.loads(run(*ADOPT, "--dry-run", "-o", "json").stdout)
    assert [(row["difference"], row["version"], row["done"]) for row in plan] == [
        ("foreign_commit", 1, False),
        ("own_commit", 1, False),
    ]
    assert plan[1]["what"] == "version 1 becomes version 2"
    assert plan[1]["detail"] == "WRITE by ada, 1 added, 0 removed"
    assert "log: " in plan[0]["detail"]
    text = run(*ADOPT, "--dry-run").stdout
    assert "version 1 becomes version 2" in text
    refused = run(*ADOPT, code=2)
    assert "Give 1 commits of orders new numbers" in refused.stderr
    assert "WRITE by ada, 1 added, 0 removed: version 1 becomes version 2." in refused.stderr
    run(*ADOPT, "--yes")
    history = json.loads(run("history", "orders", "-o", "json").stdout)
    assert [(e["version"], e["origin"], e["rebased_from"]) for e in history[:2]] == [
        (2, "commit", 1),
        (1, "adopted", None),
    ]
    assert "rebased_from" in run("history", "orders").stdout
    assert json.loads(run("show", "orders", "-o", "json").stdout)["renumberings"] == 1
    run("fsck", "orders")


def test_a_commit_that_cannot_move_is_named_and_the_way_out_too(run, uri, tmp_path):
    with deltasql.connect(uri, committer="ada") as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        put_foreign(table, 2, a_foreign_file(table, 100))
        table.delete("day = 'a'")
    plan = run(*ADOPT, "--dry-run", "-o", "json", code=3)
    told = json.loads(plan.stdout)[-1]["what"]
    assert told.startswith("cannot become version 3: against version 2 (FOREIGN)")
    done = run(*ADOPT, "--yes", code=4)
    assert "error[DS506]: Version 2 of orders (DELETE by ada) cannot become" in done.stderr
    assert "--replace" in done.stderr
    assert "not both" in run(*ADOPT, "--replace", "--yes", code=2).stderr
    run("mirror", "repair", "orders", "--replace", "--yes")
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
