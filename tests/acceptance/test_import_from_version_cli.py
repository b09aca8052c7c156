"""`import --from-version` on the command line: reports, refusals, lakes."""

import re

import pytest

from commands import data
from deltasql.protocol.log_names import commit_key
from histories import History
from legacy import LOCAL, checkpoint_at, row_of

pytestmark = pytest.mark.req("R80")
VERSIONS = 24


@pytest.fixture
def target(tmp_path):
    return f"deltasql://sqlite/{tmp_path}/metadata.db"


@pytest.fixture
def source(tmp_path):
    return History(5, versions=VERSIONS, vectors=False).write(tmp_path / "lake/orders")


def test_only_versions_from_the_given_one_on_are_in_sql(call, source, target):
    checkpoint_at(source, 10)
    done = data(call("import", source, target, *LOCAL, "--from-version", "15", "-o", "json"))
    assert (done["first_version"], done["version"]) == (15, VERSIONS - 1)
    assert done["imported"]["versions"] == VERSIONS - 10
    assert done["validation"]["outcome"] == "equal"
    (note,) = [one for one in done["warnings"] if one["code"] == "history-skipped"]
    assert (note["level"], note["count"]) == ("note", 15)
    told = data(call("history", "orders", "-u", target, "-o", "json"))
    assert [one["version"] for one in told] == list(range(VERSIONS - 1, 14, -1))
    refused = call("files", "orders", "-u", target, "--version", "14", code=1).stderr
    assert "Table orders has no version 14; it has 15 to 23." in refused
    shown = data(call("show", "orders", "-u", target, "-o", "json"))
    assert shown["import"]["from_version"] == 15


def test_the_summary_tells_what_was_read_and_what_the_table_has(call, source, target):
    checkpoint_at(source, 10)
    done = call("import", source, target, *LOCAL, "--from-version", "15")
    assert "Dropping older versions" in done.stderr
    assert "note[history-skipped]: Versions 0 to 14 are not imported" in done.stderr
    told = dict(re.split(r"  +", line, maxsplit=1) for line in done.stdout.splitlines())
    assert told["versions"] == "14 versions read; the table has 15 to 23"
    again = call("import", source, target, *LOCAL, "--resume").stdout
    assert "0 versions imported; the table has 15 to 23" in again
    assert "equal" in call("import", source, target, *LOCAL, "--validate-only").stdout


def test_a_dry_run_tells_where_the_history_would_begin(call, source, target):
    checkpoint_at(source, 10)
    words = ("import", source, target, *LOCAL, "--from-version", "15", "--dry-run")
    told = call(*words).stdout
    assert "Would import 9 versions" in told
    assert "orders, 15 to 23\n" in told
    assert "Would read the log from version 10 on, for the state of version 15\n" in told
    facts = data(call(*words, "-o", "json"))
    assert (facts["first_version"], facts["versions"]) == (15, 9)
    assert facts["begins_with_checkpoint"] == 10


BEYOND = [
    (["--from-version", "24"], "ends at version 23"),
    (["--from-version", "9"], "the oldest version that the history can begin at is 10"),
]
WRONG = [
    (["--from-version", "-1"], "--from-version"),
    (["--from-version", "x"], "--from-version"),
    (["--from-version", "12", "--up-to-version", "11"], "cannot end at version 11"),
    (["--from-version", "12", "--checkpoint-only"], "--from-version or --checkpoint-only"),
    (["--from-version", "12", "--validate-only"], "leave out --from-version"),
]


@pytest.mark.parametrize(("words", "told"), BEYOND + WRONG, ids=str)
def test_what_cannot_be_is_refused_before_anything_happens(call, source, target, words, told):
    checkpoint_at(source, 10)
    for version in range(10):
        (source / commit_key(version)).unlink()
    code = 2 if (words, told) in WRONG else 1
    refused = call("import", source, target, *LOCAL, *words, code=code).stderr
    assert told in refused
    assert "\nhint: " in refused
    assert not any(path.suffix == ".db" for path in source.parents[1].iterdir())


def test_an_import_is_resumed_with_the_version_that_it_was_begun_with(call, source, target):
    words = ("import", source, target, *LOCAL)
    call(*words, "--from-version", "8", "--up-to-version", "12")
    refused = call(*words, "--resume", "--from-version", "9", code=4).stderr
    assert "was begun with the versions from 8 on" in refused
    call(*words, "--resume")
    call(*words, "--resume", "--from-version", "8")
    assert (row_of(target).oldest_version, row_of(target).current_version) == (8, VERSIONS - 1)


def test_a_table_of_a_lake_that_ends_before_the_version_is_told(call, source, target):
    History(6, versions=5, vectors=False).write(source.parent / "items")
    words = ("import", "--lake", source.parent, target, *LOCAL, "--from-version", "8", "-o", "json")
    told = data(call(*words, code=1))
    found = {one["table"]: one for one in told["tables"]}
    assert (found["items"]["event"], found["items"]["code"]) == ("failed", "DS303")
    assert "ends at version 4" in found["items"]["message"]
    assert (found["orders"]["event"], found["orders"]["first_version"]) == ("imported", 8)
    again = data(call(*words, "--resume", code=1))
    assert {one["table"]: one["event"] for one in again["tables"]} == {
        "items": "failed",
        "orders": "imported",
    }
