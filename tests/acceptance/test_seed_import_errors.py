"""Every scenario of the import's requirements: tracking, errors, the way back."""

import json
import re

import pyarrow as pa
import pytest

import deltasql
from commands import data
from deltasql.metastore.table_row import TableState
from deltasql.protocol.log_names import commit_key
from deltasql.testing import inspect
from histories import History
from legacy import LOCAL, checkpoint_at, fingerprint, row_of, spoil, write_legacy
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


# -- incremental import: version tracking ------------------------------------------------------


@pytest.mark.req("R71")
def test_import_metadata_is_tracked_in_the_table_properties(call, source, target):
    call("import", source, target, *LOCAL)
    noted = row_of(target, "mytable").properties["import_metadata"]
    assert noted["last_imported_version"] == VERSIONS - 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", noted["import_timestamp"])
    assert noted["source_uri"] == source.as_uri()
    shown = data(call("show", "mytable", "-u", target, "-o", "json"))["import"]
    assert {key: shown[key] for key in noted if key in shown} == {
        key: value for key, value in noted.items() if key in shown
    }


@pytest.mark.req("R71", "R103")
def test_a_table_that_a_legacy_system_still_writes_is_synced_now_and_then(call, legacy, target):
    import deltalake

    call("import", legacy, target, *LOCAL)
    for number in range(2):
        rows = pa.table({"id": [100 + number], "day": ["c"], "note": ["late"]})
        deltalake.write_deltalake(str(legacy), rows, mode="append")
        call("import", legacy, target, *LOCAL, "--resume")
        with deltasql.connect(target) as catalog:
            found = catalog.table("mytable").scan().to_arrow().to_pylist()
        assert sort_rows(found) == read_deltalake(str(legacy))
    deltalake.write_deltalake(str(legacy), rows, mode="append")
    counted = data(call("files", "mytable", "-u", target, "-o", "json", "--follow"))
    assert len(counted) == len(deltalake.DeltaTable(str(legacy)).file_uris())


# -- error handling: fail fast with context ----------------------------------------------------


@pytest.mark.req("R75")
def test_missing_commit_file_is_reported_and_stops(call, source, target, tmp_path):
    checkpoint_at(source, 15)
    (source / commit_key(12)).unlink()
    told = call("import", source, target, *LOCAL, code=5).stderr
    assert "Version 12 is missing" in told
    for way in ("--up-to-version 11", "--checkpoint-only", "--lenient"):
        assert way in told
    assert not (tmp_path / "metadata.db").exists()
    call("import", source, target, *LOCAL, "--checkpoint-only")
    assert row_of(target, "mytable").first_version == 15


@pytest.mark.req("R73")
def test_missing_file_is_uploaded_and_the_import_goes_on(call, source, target):
    path = source / commit_key(12)
    kept = path.read_bytes()
    path.unlink()
    call("import", source, target, *LOCAL, "--up-to-version", "11")
    path.write_bytes(kept)
    call("import", source, target, *LOCAL, "--resume")
    assert row_of(target, "mytable").current_version == VERSIONS - 1


@pytest.mark.req("R74")
def test_corrupt_checkpoint_falls_back_to_replay_with_a_warning(call, source, target):
    spoil(checkpoint_at(source, 20))
    (source / "_delta_log/_last_checkpoint").unlink()
    done = call("import", source, target, *LOCAL, "--checkpoint-only")
    assert "warning[corrupt-checkpoint]: " in done.stderr
    assert row_of(target, "mytable").first_version == 0
    assert row_of(target, "mytable").current_version == VERSIONS - 1


@pytest.mark.req("R74")
def test_corrupt_checkpoint_that_the_history_does_not_need_is_a_warning(call, legacy, target):
    spoil(checkpoint_at(legacy, 5))
    looked = call("import", legacy, target, *LOCAL, "--dry-run")
    done = call("import", legacy, target, *LOCAL)
    again = call("import", legacy, target, *LOCAL, "--validate-only")
    for told in (looked, done, again):
        assert "warning[corrupt-checkpoint]: The checkpoint of version 5 is corrupt" in told.stderr
    for told in (done, again):  # the next older one is the second witness
        assert "equal: " in told.stdout
        assert f"{3:020d}.checkpoint.parquet" in told.stdout
    assert row_of(target, "mytable").first_version == 0


@pytest.mark.req("R74")
def test_corrupt_checkpoint_without_another_way_is_told(call, source, target):
    spoil(checkpoint_at(source, 10))
    for version in range(10):
        (source / commit_key(version)).unlink()
    told = call("import", source, target, *LOCAL, code=5).stderr
    assert "no usable checkpoint" in told
    assert "hint: " in told
    with deltasql.connect(target) as catalog:
        assert catalog.tables() == catalog.unfinished_imports() == []


@pytest.mark.req("R73")
def test_a_corrupt_commit_is_told_with_version_line_and_reason(call, source, target):
    path = source / commit_key(4)
    path.write_bytes(path.read_bytes() + b'{"add":{"size":1}}\n')
    line = path.read_bytes().count(b"\n")
    told = call("import", source, target, *LOCAL, code=5).stderr
    assert re.search(r"version 4\b", told, re.IGNORECASE)
    assert f"line {line}" in told
    assert "byte" in told


@pytest.mark.req("R79")
def test_non_utf8_is_told_by_version_and_line(call, source, target):
    path = source / commit_key(4)
    path.write_bytes(path.read_bytes() + b'{"txn":{"appId":"\xff","version":1}}\n')
    told = call("import", source, target, *LOCAL, code=5).stderr
    assert "UTF-8" in told
    assert re.search(r"version 4\b", told, re.IGNORECASE)


@pytest.mark.req("R73")
def test_an_unsupported_feature_is_named(call, source, target):
    path = source / commit_key(0)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1]["protocol"] = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["timeMachine"],
        "writerFeatures": ["timeMachine"],
    }
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "timeMachine" in call("import", source, target, *LOCAL, code=1).stderr


# -- migration plan ----------------------------------------------------------------------------


@pytest.mark.req("R82")
def test_rollback_deletes_the_rows_and_leaves_the_source(call, legacy, target):
    before = fingerprint(legacy)
    call("import", legacy, target, *LOCAL)
    assert (
        "--keep-data or --purge"
        in call("drop", "mytable", "-u", target, "--keep-data", "--purge", code=2).stderr
    )
    call("drop", "mytable", "-u", target, "--keep-data")
    assert fingerprint(legacy) == before
    with deltasql.connect(target) as catalog:
        catalog.create_if_missing()
        rows = inspect(catalog).database.fetch_all
        assert rows("all_tables") == []
    call("import", legacy, target, *LOCAL)


@pytest.mark.req("R102")
def test_cutover_and_back(call, legacy, target):
    import deltalake

    call("import", legacy, target, *LOCAL)
    done = data(call("cutover", "mytable", "-u", target, "-o", "json"))
    assert (done["version"], done["state"], done["fenced"]) == (6, "active", True)
    late = pa.table({"id": [7], "day": ["z"], "note": ["legacy"]})
    with pytest.raises(deltalake.exceptions.DeltaError):
        deltalake.write_deltalake(str(legacy), late, mode="append")
    with deltasql.connect(target) as catalog:
        catalog.table("mytable").append(pa.table({"id": [8], "day": ["z"], "note": ["sql"]}))
    assert {"id": 8, "day": "z", "note": "sql"} in read_deltalake(str(legacy))
    call("detach", "mytable", "-u", target, "--yes")
    deltalake.write_deltalake(str(legacy), late, mode="append")
    assert late.to_pylist()[0] in read_deltalake(str(legacy))
    assert call("history", "mytable", "-u", target, "-o", "json").stdout.count("DETACH") == 1


@pytest.mark.req("R102")
def test_a_read_only_import_is_let_go_without_a_commit(call, legacy, target):
    before = fingerprint(legacy)
    call("import", legacy, target, *LOCAL)
    call("detach", "mytable", "-u", target, "--yes")
    assert fingerprint(legacy) == before
    assert row_of(target, "mytable").state is TableState.DETACHED


@pytest.mark.req("R81")
def test_import_on_spark(call, source, target, spark):
    done = data(call("import", source, target, "--engine", "spark", "-o", "json"))
    assert (done["engine"], done["imported"]["versions"]) == ("spark", VERSIONS)
    assert done["validation"]["outcome"] == "equal"
