"""Every scenario of the import's requirements, by its name, through the command line."""

import json
import os
import re
import shutil

import pytest
from bench import logs

import deltasql
from builders import some
from commands import data
from deltasql.imports.read import tasks
from deltasql.metastore.table_row import TableState
from deltasql.protocol.log_names import commit_key
from deltasql.testing import inspect
from histories import START, History
from legacy import LOCAL, checkpoint_at, fingerprint, row_of, write_legacy
from readers import read_deltalake, sort_rows

VERSIONS = 24


@pytest.fixture
def target(tmp_path):
    return f"deltasql://sqlite/{tmp_path}/metadata.db?table=mytable"


@pytest.fixture
def source(tmp_path):
    """A log without checkpoints, of many small commits."""
    return History(5, versions=VERSIONS, vectors=False).write(tmp_path / "lake/orders")


@pytest.fixture
def legacy(tmp_path):
    return write_legacy(tmp_path / "lake/legacy")


# -- goals ------------------------------------------------------------------------------------


@pytest.mark.req("R60", "R65")
def test_imports_all_historical_versions_and_actions(call, legacy, target):
    done = data(call("import", legacy, target, *LOCAL, "-o", "json"))
    assert (done["first_version"], done["version"]) == (0, 5)
    assert done["imported"]["versions"] == 6
    assert done["imported"]["add"] == 5
    assert done["imported"]["remove"] >= 1
    with deltasql.connect(target) as catalog:
        table = catalog.table("mytable")
        for version in range(6):
            found = table.scan(version=version).to_arrow()
            assert sort_rows(found.to_pylist()) == read_deltalake(str(legacy), version=version)


@pytest.mark.req("R62")
def test_preserves_version_numbers_timestamps_and_committers(call, source, target):
    path = source / commit_key(3)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["commitInfo"] |= {"userName": "ada", "operation": "MERGE"}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for version in range(VERSIONS):  # without in-commit timestamps the files' times count
        os.utime(source / commit_key(version), (START // 1000 + version,) * 2)
    call("import", source, target, *LOCAL)
    told = data(call("history", "mytable", "-u", target, "-o", "json"))
    assert [one["version"] for one in told] == list(reversed(range(VERSIONS)))
    third = next(one for one in told if one["version"] == 3)
    assert (third["committer"], third["operation"]) == ("ada", "MERGE")
    with deltasql.connect(target) as catalog:
        for entry in some(catalog.table("mytable").history()):
            assert entry.committed_at == START + 1000 * entry.version


@pytest.mark.req("R60")
def test_keeps_every_commit_byte_for_byte(call, source, target):
    call("import", source, target, *LOCAL)
    with deltasql.connect(target) as catalog:
        catalog.create_if_missing()
        book = inspect(catalog).metastore
        for version in range(VERSIONS):
            kept = book.payload(row_of_open(catalog).table_id, version)
            assert kept == (source / commit_key(version)).read_bytes()


def row_of_open(catalog):
    return inspect(catalog).metastore.table("mytable")


@pytest.mark.req("R83")
def test_schema_evolution_and_protocol_upgrades_are_replayed(call, legacy, target):
    import deltalake

    deltalake.DeltaTable(str(legacy)).alter.add_feature(
        deltalake.TableFeatures.AppendOnly, allow_protocol_versions_increase=True
    )
    call("import", legacy, target, *LOCAL)
    with deltasql.connect(target) as catalog:
        table = catalog.table("mytable")
        assert [f.name for f in table.snapshot(version=0).schema.fields] == ["id", "day"]
        assert [f.name for f in table.schema.fields] == ["id", "day", "note"]
        before, after = table.snapshot(version=0).protocol, table.snapshot().protocol
        assert after.min_writer_version > before.min_writer_version


@pytest.mark.req("R77")
def test_import_never_touches_the_source(call, legacy, target):
    before = fingerprint(legacy)
    call("import", legacy, target, *LOCAL)
    call("import", legacy, target, *LOCAL, "--resume")
    call("import", legacy, target, *LOCAL, "--validate-only")
    call("import", legacy, target, *LOCAL, "--force", "--yes")
    assert fingerprint(legacy) == before


# -- import strategy: checkpoint + incremental replay ------------------------------------------


@pytest.mark.req("R60")
def test_a_log_whose_beginning_is_gone_stands_on_its_checkpoint(call, source, target):
    checkpoint_at(source, 10)
    for version in range(10):
        (source / commit_key(version)).unlink()
    done = call("import", source, target, *LOCAL)
    assert "Reading checkpoint..." in done.stderr
    row = row_of(target, "mytable")
    assert (row.first_version, row.current_version) == (10, VERSIONS - 1)


@pytest.mark.req("R61")
def test_without_a_checkpoint_the_replay_begins_at_version_0(call, source, target):
    call("import", source, target, *LOCAL)
    row = row_of(target, "mytable")
    assert (row.first_version, row.current_version) == (0, VERSIONS - 1)


# -- batch insertion per version ---------------------------------------------------------------


@pytest.mark.req("R63", "R73")
def test_a_partial_import_ends_at_a_whole_version_and_resumes(call, source, target, monkeypatch):
    monkeypatch.setattr(tasks, "TASK_VERSIONS", 5)
    path = source / commit_key(12)
    good = path.read_bytes()
    path.write_bytes(good + b'{"add":{"path":7}}\n')
    told = call("import", source, target, *LOCAL, code=5).stderr
    assert "version 12" in told.lower()
    assert "Versions 0 to 9 of mytable are kept" in told
    assert "--resume" in told
    assert "`deltasql -u" in told
    row = row_of(target, "mytable")
    assert (row.state, row.current_version) == (TableState.IMPORTING, 9)
    listed = call("tables", "-u", target)
    assert "mytable" not in listed.stdout
    assert "mytable (at version 9)" in listed.stderr
    path.write_bytes(good)
    done = data(call("import", source, target, *LOCAL, "--resume", "-o", "json"))
    assert done["imported"]["versions"] == VERSIONS - 10
    assert done["validation"]["outcome"] == "equal"


# -- validation strategy: snapshot comparison --------------------------------------------------


@pytest.mark.req("R64")
def test_validation_is_on_by_default_and_names_what_it_compared(call, legacy, target):
    told = data(call("import", legacy, target, *LOCAL, "-o", "json"))["validation"]
    assert told["outcome"] == "equal"
    assert told["compared_with"][0] == "the commits"
    assert told["compared_with"][1].endswith("00000000000000000003.checkpoint.parquet")
    assert told["differences"] == []


def tamper(target, statement: str) -> None:
    """Change the catalog behind everybody's back."""
    import adbc_driver_sqlite.dbapi

    path = target.removeprefix("deltasql://sqlite/").partition("?")[0]
    with adbc_driver_sqlite.dbapi.connect(path) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        connection.commit()


@pytest.mark.req("R64")
@pytest.mark.parametrize(
    ("statement", "check"),
    [
        ("delete from dl_files where file_id = (select min(file_id) from dl_files)", "files"),
        ("update dl_files set size = size + 1", "files"),
        ("update dl_metadata_updates set action = replace(action, 'note', 'nota')", "schema"),
        ("update dl_protocol_updates set action = replace(action, ':2', ':4')", "protocol"),
    ],
    ids=["active file set", "total size", "schema", "protocol"],
)
def test_a_discrepancy_is_reported_in_detail(call, legacy, target, statement, check):
    call("import", legacy, target, *LOCAL)
    tamper(target, statement)
    told = data(call("import", legacy, target, *LOCAL, "--validate-only", "-o", "json", code=3))
    assert told["validation"]["outcome"] == "different"
    assert check in {one["check"] for one in told["validation"]["differences"]}
    text = call("import", legacy, target, *LOCAL, "--validate-only", code=3).stdout
    assert re.search(rf"^{check} ", text, re.MULTILINE)
    if check == "files":
        assert told["validation"]["files"]


@pytest.mark.req("R64")
def test_the_user_decides_whether_to_accept_or_to_import_again(call, legacy, target):
    call("import", legacy, target, *LOCAL)
    tamper(target, "update dl_files set size = size + 1")
    call("import", legacy, target, *LOCAL, "--validate-only", code=3)
    refused = call("cutover", "mytable", "-u", target, code=3).stderr
    assert "differs from its log" in refused
    assert "--accept-differences" in refused
    assert row_of(target, "mytable").state is TableState.READ_ONLY
    call("import", legacy, target, *LOCAL, "--force", "--yes")
    assert (
        data(call("show", "mytable", "-u", target, "-o", "json"))["import"]["validation"] == "equal"
    )
    tamper(target, "update dl_files set size = size + 1")
    call("import", legacy, target, *LOCAL, "--validate-only", "--accept-differences")
    shown = data(call("show", "mytable", "-u", target, "-o", "json"))
    assert shown["import"]["validation"] == "accepted"
    call("cutover", "mytable", "-u", target)


# -- command line: simple and clear ------------------------------------------------------------


@pytest.mark.req("R65")
def test_basic_import(call, source, postgres_server):
    uri = postgres_server.uri(postgres_server.create_database_name())
    place, _, query = uri.partition("?")
    target = f"{place}/public/mytable?{query}" if place.count("/") == 3 else uri
    done = data(call("import", source, target, *LOCAL, "--name", "mytable", "-o", "json"))
    assert (done["table"], done["state"]) == ("mytable", "read_only")
    assert done["database_bytes"] > 0


@pytest.mark.req("R66")
def test_dry_run_to_preview(call, source, target, tmp_path):
    told = call("import", source, target, *LOCAL, "--dry-run").stdout.splitlines()
    assert told[0].startswith(f"Would import {VERSIONS} versions")
    assert re.match(r"Would insert \d+ add actions, \d+ remove actions, ", told[1])
    assert any(re.match(r"Estimated time: [\d.]+ seconds", line) for line in told)
    assert any(re.match(r"Estimated database size: [\d.]+ kB", line) for line in told)
    assert not (tmp_path / "metadata.db").exists()


@pytest.mark.req("R66")
def test_dry_run_counts_what_the_import_inserts(call, source, target):
    words = ("import", source, target, *LOCAL, "-o", "json")
    would, did = data(call(*words, "--dry-run")), data(call(*words))
    assert would["would_insert"] == did["imported"]
    assert (would["first_version"], would["version"]) == (did["first_version"], did["version"])
    assert would["live_files"] == did["files"]


@pytest.mark.req("R66")
def test_dry_run_validates_that_the_source_is_readable(call, source, target, tmp_path):
    (source / commit_key(7)).write_bytes(b"{broken\n")
    assert "version 7" in call("import", source, target, *LOCAL, "--dry-run", code=5).stderr.lower()
    call("import", source, target, *LOCAL, "--dry-run=quick")
    assert not (tmp_path / "metadata.db").exists()


@pytest.mark.req("R66")
def test_dry_run_changes_nothing_in_a_catalog_that_is_there(call, source, target, tmp_path):
    call("import", source, target, *LOCAL, "--up-to-version", "9")
    before = row_of(target, "mytable")
    told = data(call("import", source, target, *LOCAL, "--resume", "--dry-run", "-o", "json"))
    assert (told["first_version"], told["versions"]) == (10, VERSIONS - 10)
    assert told["would_insert"]["versions"] == VERSIONS - 10
    assert row_of(target, "mytable") == before


@pytest.mark.req("R66")
@pytest.mark.parametrize(("kind", "commits"), [("actions", 6), ("commits", 400)])
def test_dry_run_estimates_the_size_within_a_factor_of_two(call, catalog_uri, kind, commits):
    logs.build("big", kind, commits)
    words = ("import", "big/table", catalog_uri, *LOCAL, "-o", "json")
    quick, full, done = (
        data(call(*words, *how)) for how in (["--dry-run=quick"], ["--dry-run"], [])
    )
    for told in (quick, full):
        assert 0.5 < told["estimated_database_bytes"] / done["database_bytes"] < 2
    assert full["would_insert"] == done["imported"]


@pytest.mark.req("R71")
def test_resume_incremental_import(call, source, target):
    aside = source.parent / "aside"
    aside.mkdir()
    for version in range(15, VERSIONS):
        shutil.move(source / commit_key(version), aside)
    call("import", source, target, *LOCAL)
    assert row_of(target, "mytable").current_version == 14
    for path in aside.iterdir():
        shutil.move(path, source / "_delta_log")
    done = data(call("import", source, target, *LOCAL, "--resume", "-o", "json"))
    assert (done["imported"]["versions"], done["version"]) == (VERSIONS - 15, VERSIONS - 1)
    assert (
        data(call("import", source, target, *LOCAL, "--resume", "-o", "json"))["imported"][
            "versions"
        ]
        == 0
    )


@pytest.mark.req("R67")
def test_up_to_version_imports_only_so_far(call, source, target):
    done = data(call("import", source, target, *LOCAL, "--up-to-version=9", "-o", "json"))
    assert (done["version"], done["imported"]["versions"]) == (9, 10)


@pytest.mark.req("R68", "R78")
def test_force_overwrites_an_existing_table(call, source, target):
    call("import", source, target, *LOCAL, "--up-to-version", "3")
    refused = call("import", source, target, *LOCAL, code=1).stderr
    assert "--resume" in refused
    assert "--force" in refused
    asked = call("import", source, target, *LOCAL, "--force", code=2).stderr
    assert "Replace mytable (version 3)" in asked
    assert "--yes" in asked
    assert row_of(target, "mytable").current_version == 3
    call("import", source, target, *LOCAL, "--force", "--yes")
    assert row_of(target, "mytable").current_version == VERSIONS - 1


@pytest.mark.req("R69")
def test_skip_validation(call, source, target):
    done = call("import", source, target, *LOCAL, "--skip-validation")
    assert "Validating..." not in done.stderr
    assert re.search(r"^validation +skipped$", done.stdout, re.MULTILINE)
    noted = data(call("show", "mytable", "-u", target, "-o", "json"))["import"]
    assert noted["validation"] == "skipped"


@pytest.mark.req("R70")
def test_checkpoint_only_skips_history(call, source, target):
    checkpoint_at(source, 10)
    done = data(call("import", source, target, *LOCAL, "--checkpoint-only", "-o", "json"))
    assert (done["first_version"], done["version"]) == (10, VERSIONS - 1)
    assert "history-skipped" in {one["code"] for one in done["warnings"]}
    assert done["imported"]["checkpoint_files"] > 0


# -- progress reporting ------------------------------------------------------------------------


@pytest.mark.req("R72")
def test_status_messages_and_versions_processed(call, source, target, monkeypatch):
    monkeypatch.setattr(tasks, "TASK_VERSIONS", 5)
    checkpoint_at(source, 3)
    for version in range(3):
        (source / commit_key(version)).unlink()
    told = call("import", source, target, *LOCAL).stderr
    assert "Reading checkpoint..." in told
    assert re.search(r"Importing version \d+\.\.\. \d+/21 versions \(\d+%\)", told)
    assert "Validating..." in told


@pytest.mark.req("R72")
def test_summary_tells_versions_actions_time_and_validation(call, source, target):
    lines = call("import", source, target, *LOCAL).stdout.splitlines()
    told = dict(re.split(r"  +", line, maxsplit=1) for line in lines)
    assert told["versions"].startswith(f"{VERSIONS} versions imported")
    assert re.match(r"\d+ add, \d+ remove", told["actions"])
    assert "live files" in told["files"]
    assert told["time"].endswith("seconds on the local engine")
    assert told["validation"].startswith("equal")
    assert told["database"].endswith("kB")
