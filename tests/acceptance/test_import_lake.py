"""Whole lakes on the command line: one bad table does not stop the others."""

import json

import pytest

from commands import data
from deltasql.protocol.log_names import commit_key
from histories import History
from legacy import LOCAL, row_of


@pytest.fixture
def target(tmp_path):
    return f"deltasql://sqlite/{tmp_path}/metadata.db"


@pytest.fixture
def lake(tmp_path):
    """Three good tables, one of them in a table, and one with a hole."""
    root = tmp_path / "lake"
    History(5, versions=12, vectors=False).write(root / "orders")
    History(6, versions=5, vectors=False).write(root / "sales/items")
    History(7, versions=5, vectors=False).write(root / "sales/items/inner")
    broken = History(8, versions=9, vectors=False).write(root / "broken")
    (broken / commit_key(4)).unlink()
    (root / "no table").mkdir()
    return root


@pytest.mark.req("R65")
def test_a_lake_is_imported_with_a_report_per_table(call, lake, target):
    told = data(call("import", "--lake", lake, target, *LOCAL, "-o", "json", code=5))
    found = {one["table"]: one for one in told["tables"]}
    assert {name: one["event"] for name, one in found.items()} == {
        "broken": "failed",
        "orders": "imported",
        "sales.items": "imported",
        "sales.items.inner": "imported",
    }
    assert (told["count"], told["failed"]) == (4, 1)
    assert found["broken"]["code"] == "DS204"
    assert "Version 4 is missing" in found["broken"]["message"]
    assert "--up-to-version 3" in found["broken"]["hint"]
    assert found["sales.items"]["imported"]["versions"] == 5
    listed = data(call("tables", "-u", target, "-o", "json"))
    assert [one["name"] for one in listed] == ["orders", "sales.items", "sales.items.inner"]


@pytest.mark.req("R65")
def test_a_lake_goes_on_with_what_is_there_and_brings_what_is_new(call, lake, target):
    call("import", lake / "orders", target, *LOCAL, "--up-to-version", "3")
    call("import", lake / "sales/items", target, *LOCAL, "--name", "sales.items")
    call("cutover", "sales.items", "-u", target)
    done = call("import", "--lake", lake, target, *LOCAL, "--resume", code=5)
    rows = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines()[1:]}
    assert rows == {
        "broken": "failed",
        "orders": "imported",
        "sales.items": "skipped",
        "sales.items.inner": "imported",
    }
    assert row_of(target).current_version == 11


@pytest.mark.req("R65", "R72")
def test_the_report_of_a_lake_ends_with_totals_and_names_logs_without_a_commit(call, lake, target):
    (lake / "half/_delta_log").mkdir(parents=True)
    (lake / "half/_delta_log/_last_checkpoint").write_text("{}")
    done = call("import", "--lake", lake, target, *LOCAL, code=5)
    *_, totals, skipped = done.stderr.splitlines()
    assert totals.startswith("4 tables: 1 failed, 3 imported; 22 versions, ")
    assert skipped == "skipped half: its _delta_log holds no commit"
    told = data(call("import", "--lake", lake, target, *LOCAL, "--resume", "-o", "json", code=5))
    assert told["without_commit"] == ["half"]
    assert told["outcomes"] == {"failed": 1, "imported": 3}
    assert told["files"] == sum(one.get("files", 0) for one in told["tables"])


@pytest.mark.req("R65")
def test_a_lake_of_logs_without_a_commit_says_so(call, tmp_path, target):
    (tmp_path / "lake/a/_delta_log").mkdir(parents=True)
    (tmp_path / "lake/a/_delta_log/x.txt").touch()
    told = call("import", "--lake", "lake", target, *LOCAL, code=1).stderr
    assert "The log of 'a' holds no commit" in told


@pytest.mark.req("R66")
def test_a_lake_can_be_previewed_and_compared(call, lake, target, tmp_path):
    events = call("import", "--lake", lake, target, *LOCAL, "--dry-run", "-o", "ndjson", code=5)
    lines = [json.loads(line) for line in events.stdout.splitlines()]
    told = [one["event"] for one in lines if one["event"] != "progress"]
    assert told == ["failed", "previewed", "previewed", "previewed", "lake"]
    assert not (tmp_path / "metadata.db").exists()
    call("import", "--lake", lake, target, *LOCAL, code=5)
    done = data(
        call("import", "--lake", lake, target, *LOCAL, "--validate-only", "-o", "json", code=1)
    )
    found = {one["table"]: one for one in done["tables"]}
    assert found["broken"]["code"] == "DS301"
    assert found["orders"]["validation"]["outcome"] == "equal"


@pytest.mark.req("R65")
def test_folders_of_one_name_are_told(call, tmp_path, target):
    for folder in ("a.b", "a_b"):
        History(5, versions=2, vectors=False).write(tmp_path / "lake" / folder)
    told = data(call("import", "--lake", "lake", target, *LOCAL, "-o", "json", code=1))
    assert {one["code"] for one in told["tables"]} == {"DS302"}
    assert "'a.b' and 'a_b'" in told["tables"][0]["message"]


@pytest.mark.req("R68")
def test_a_lake_asks_once_before_it_replaces(call, lake, target):
    call("import", lake / "orders", target, *LOCAL)
    told = call("import", "--lake", lake, target, *LOCAL, "--force", code=2).stderr
    assert "Replace orders (version 11) by a new import?" in told
    call("import", "--lake", lake, target, *LOCAL, "--force", "--yes", code=5)
