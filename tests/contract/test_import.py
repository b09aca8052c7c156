"""An import gives what a naive replay gives, at every version, however its log is cut."""

import shutil

import pyarrow as pa
import pytest

import deltasql
from builders import some
from deltasql.errors import (
    NotResumableError,
    OwnershipError,
    TableExistsError,
    TableStateError,
)
from deltasql.imports.job import ImportOptions, TableImport
from deltasql.imports.read import tasks
from deltasql.metastore.commit.insert import file_columns, parsed_stats
from deltasql.metastore.table_row import TableState
from deltasql.protocol.actions import path_key
from deltasql.protocol.log_names import commit_key
from deltasql.testing import inspect
from histories import History

pytestmark = pytest.mark.req("R60", "R61", "R62", "R63")


def do_import(catalog, root, name="t", **options):
    return TableImport(
        catalog._lazy.create().connection, str(root), name, ImportOptions(**options)
    ).run()


def files_at(catalog, row, version):
    found = (
        inspect(catalog)
        .metastore.snapshot(row.table_id, version=version)
        .files(columns=("path", "dv_id", "size", "num_records", "partition_values"))
    )
    return sorted(tuple(one.values()) for one in found.to_pylist())


def require_replayed(catalog, row, history, first=0):
    """Compare everything that a snapshot tells with the naive replay."""
    for version, state in some(enumerate(history.states()))[first:]:
        adds = list(state.files.values())
        columns = file_columns(adds, range(len(adds)), parsed_stats(adds))
        names = ("path", "dv_id", "size", "num_records", "partition_values")
        expected = sorted(zip(*(columns[name] for name in names), strict=True))
        assert files_at(catalog, row, version) == expected, version
        snapshot = inspect(catalog).metastore.snapshot(row.table_id, version=version)
        assert snapshot.metadata == state.metadata
        assert snapshot.protocol == state.protocol
        assert {one.app_id: one.version for one in snapshot.txns()} == {
            app: txn.version for app, txn in state.txns.items()
        }
        assert {d.domain: d.configuration for d in snapshot.domains()} == {
            name: domain.configuration for name, domain in state.domains.items()
        }
        assert inspect(catalog).metastore.payload(row.table_id, version) == history.commits[version]
    assert tombstones_of(catalog, row) == {
        (path_key(one.path), one.dv_id) for one in state.tombstones.values()
    }


def tombstones_of(catalog, row):
    """The keys whose last word was a remove, by the rows themselves."""
    database = inspect(catalog).database
    names = ("path", "dv_id", "removed_version", "removal")
    schema = pa.schema([(n, pa.int64() if n == "removed_version" else pa.string()) for n in names])
    text = f"select {', '.join(names)} from dl_removed_files where table_key = {row.table_key}"
    last = {}
    for one in database.arrow(text, {}, schema).to_pylist():
        key = (path_key(one["path"]), one["dv_id"])
        last[key] = max(last.get(key, (-1, "")), (one["removed_version"], one["removal"]))
    live = {(path_key(path), dv) for path, dv, *_ in files_at(catalog, row, None)}
    return {key for key, (_, by) in last.items() if by == "remove" and key not in live}


@pytest.mark.parametrize("cut", [1, 3, 1000])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_version_is_what_a_naive_replay_gives(catalog_uri, tmp_path, monkeypatch, seed, cut):
    monkeypatch.setattr(tasks, "TASK_VERSIONS", cut)
    history = History(seed, versions=40)
    history.write(tmp_path / "t")
    with deltasql.connect(catalog_uri) as catalog:
        done = do_import(catalog, tmp_path / "t")
        assert done.row.state is TableState.READ_ONLY
        assert done.counts.versions == 40
        require_replayed(catalog, done.row, history)


@pytest.mark.parametrize("stop", [0, 1, 17])
def test_an_import_follows_a_source_that_grows(catalog_uri, tmp_path, stop):
    history = History(7, versions=30)
    history.write(tmp_path / "t")
    late = {v: (tmp_path / "t" / commit_key(v)) for v in range(stop + 1, 30)}
    aside = tmp_path / "aside"
    aside.mkdir()
    for path in late.values():
        shutil.move(path, aside / path.name)
    with deltasql.connect(catalog_uri) as catalog:
        assert do_import(catalog, tmp_path / "t").row.current_version == stop
        with pytest.raises(TableExistsError, match="in state read_only"):
            do_import(catalog, tmp_path / "t")
        assert do_import(catalog, tmp_path / "t", resume=True).row.current_version == stop
        for path in late.values():
            shutil.move(aside / path.name, path)
        done = do_import(catalog, tmp_path / "t", resume=True)
        require_replayed(catalog, done.row, history)


@pytest.mark.req("R67")
def test_an_import_up_to_a_version_ends_there_and_goes_on_later(catalog_uri, tmp_path):
    history = History(5, versions=20)
    history.write(tmp_path / "t")
    with deltasql.connect(catalog_uri) as catalog:
        assert do_import(catalog, tmp_path / "t", up_to_version=9).row.current_version == 9
        done = do_import(catalog, tmp_path / "t", resume=True)
        assert done.row.current_version == 19
        require_replayed(catalog, done.row, history)


@pytest.mark.req("R68")
def test_force_replaces_a_table_in_one_step(catalog_uri, tmp_path):
    History(5, versions=20).write(tmp_path / "t")
    with deltasql.connect(catalog_uri) as catalog:
        old = do_import(catalog, tmp_path / "t", up_to_version=3).row
        new = do_import(catalog, tmp_path / "t", force=True).row
        assert new.table_id != old.table_id
        assert new.current_version == 19
        assert [one.table_id for one in catalog.tables()] == [new.table_id]
        assert inspect(catalog).metastore.table_by_id(old.table_id).state is TableState.DELETED
        require_replayed(catalog, new, History(5, versions=20))


def test_another_source_is_not_a_continuation(catalog_uri, tmp_path):
    History(5, versions=10).write(tmp_path / "t")
    with deltasql.connect(catalog_uri) as catalog:
        do_import(catalog, tmp_path / "t")
        shutil.rmtree(tmp_path / "t")
        History(6, versions=20).write(tmp_path / "t")
        with pytest.raises(NotResumableError, match="another table"):
            do_import(catalog, tmp_path / "t", resume=True)
        History(5, versions=5).write(tmp_path / "elsewhere")
        with pytest.raises(NotResumableError, match="came from"):
            do_import(catalog, tmp_path / "elsewhere", resume=True)
        assert inspect(catalog).metastore.table("t").current_version == 9


def test_nothing_to_go_on_with_is_told(catalog_uri, tmp_path):
    History(5, versions=3).write(tmp_path / "t")
    with deltasql.connect(catalog_uri) as catalog:
        with pytest.raises(NotResumableError, match="no import"):
            do_import(catalog, tmp_path / "t", resume=True)
        assert catalog.tables() == []


def test_a_read_only_table_takes_no_commits(catalog_uri, tmp_path):
    History(5, versions=5, vectors=False).write(tmp_path / "t")
    with deltasql.connect(catalog_uri) as catalog:
        do_import(catalog, tmp_path / "t")
        with pytest.raises(TableStateError, match="read_only and takes no commits"):
            catalog.table("t").append(pa.table({"id": [1], "p": ["a"]}))
        assert len(list((tmp_path / "t/_delta_log").iterdir())) == 5


def test_a_log_of_another_catalog_is_not_imported(catalog_uri, second_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        table = catalog.create_table(
            "t", location=str(tmp_path / "t"), schema=pa.schema([("a", pa.int64())])
        )
        table.append(pa.table({"a": [1]}))
        with pytest.raises(TableExistsError, match="this catalog already"):
            do_import(catalog, tmp_path / "t", "other")
    with deltasql.connect(second_uri) as second:
        with pytest.raises(OwnershipError, match="managed by catalog"):
            do_import(second, tmp_path / "t")
        assert second.tables() == []


def cut_log(root, version):
    """Let the source clean up: a checkpoint, and no JSON below it."""
    import deltalake

    deltalake.DeltaTable(str(root), version=version).create_checkpoint()
    for old in range(version):
        (root / commit_key(old)).unlink(missing_ok=True)


@pytest.mark.req("R69", "R70")
def test_a_log_without_its_beginning_stands_on_a_checkpoint(catalog_uri, tmp_path):
    history = History(13, versions=25, vectors=False)
    cut_log(history.write(tmp_path / "t"), 10)
    with deltasql.connect(catalog_uri) as catalog:
        done = do_import(catalog, tmp_path / "t")
        assert (done.row.first_version, done.row.current_version) == (10, 24)
        require_files(catalog, done.row, history, range(10, 25))


def test_a_source_that_cleans_up_behind_us_is_followed(catalog_uri, tmp_path):
    history = History(13, versions=25, vectors=False)
    history.write(tmp_path / "t")
    with deltasql.connect(catalog_uri) as catalog:
        do_import(catalog, tmp_path / "t", up_to_version=9)
        cut_log(tmp_path / "t", 10)
        done = do_import(catalog, tmp_path / "t", resume=True)
        require_replayed(catalog, done.row, history)


def test_a_source_whose_cleanup_was_faster_is_told(catalog_uri, tmp_path):
    history = History(13, versions=25, vectors=False)
    history.write(tmp_path / "t")
    with deltasql.connect(catalog_uri) as catalog:
        do_import(catalog, tmp_path / "t", up_to_version=9)
        cut_log(tmp_path / "t", 12)
        with pytest.raises(NotResumableError, match="no commit 10"):
            do_import(catalog, tmp_path / "t", resume=True)
        done = do_import(catalog, tmp_path / "t", force=True)
        assert done.row.first_version == 12
        require_files(catalog, done.row, history, range(12, 25))


@pytest.mark.req("R76")
def test_a_corrupt_checkpoint_gives_way_to_a_later_one(catalog_uri, tmp_path):
    import deltalake

    history = History(13, versions=25, vectors=False)
    root = history.write(tmp_path / "t")
    deltalake.DeltaTable(str(root), version=14).create_checkpoint()
    cut_log(root, 10)
    name = root / "_delta_log" / f"{10:020d}.checkpoint.parquet"
    name.write_bytes(name.read_bytes()[: name.stat().st_size // 2])
    with deltasql.connect(catalog_uri) as catalog:
        done = do_import(catalog, root)
        assert done.row.first_version == 14
        assert "corrupt-checkpoint" in {str(w.code) for w in done.plan.warnings}
        require_files(catalog, done.row, history, range(14, 25))


def require_files(catalog, row, history, versions):
    states = history.states()
    for version in versions:
        known = sorted((one.path, one.dv_id) for one in states[version].files.values())
        assert sorted(one[:2] for one in files_at(catalog, row, version)) == known, version
