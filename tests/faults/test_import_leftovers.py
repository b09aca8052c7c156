"""What a killed import has left of a segment never becomes part of a table."""

import pytest

import deltasql
from deltasql.protocol.log_names import commit_key
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants
from import_logs import (
    KillError,
    add,
    cut_by,
    do_import,
    files_of,
    kills,
    metadata,
    remove,
    stop_at,
    write_commit,
    write_log,
)
from import_rows import book_rows

pytestmark = pytest.mark.req("R63", "R71")
__all__ = ["kills"]


def differing(found, expected, *, but=("import_metadata",)):
    return {name for name in found if found[name] != expected[name]} - set(but)


def killed_in_second_segment(catalog_uri, root, monkeypatch):
    """Windows 1 and 0 of the first segment are in; then windows 5, 4 and 3 of the second one."""
    cut_by(monkeypatch, [2, 4])
    with (
        deltasql.connect(catalog_uri) as catalog,
        hooked(stop_at("after-import-window", 5)),
        pytest.raises(KillError),
    ):
        do_import(catalog, root)


@pytest.mark.usefixtures("kills")
@pytest.mark.parametrize("validate", [True, False])
def test_a_resume_that_has_nothing_to_load_removes_them(
    catalog_uri, second_uri, tmp_path, monkeypatch, validate
):
    log = [[add(f"f{v}", v, part=f"p{v}")] for v in range(6)]
    log[4].append(remove("f3", 4))
    root = write_log(tmp_path / "t", log)
    with deltasql.connect(second_uri) as whole:
        done = do_import(whole, root, up_to_version=1, validate=validate)
        expected = book_rows(whole, done.row.table_id)
    killed_in_second_segment(catalog_uri, root, monkeypatch)
    with deltasql.connect(catalog_uri) as catalog:
        done = do_import(catalog, root, resume=True, up_to_version=1, validate=validate)
        assert files_of(catalog, done.row.table_id) == ["f0", "f1"]
        assert differing(book_rows(catalog, done.row.table_id), expected) == set()
        done = do_import(catalog, root, resume=True)
        assert files_of(catalog, done.row.table_id) == ["f0", "f1", "f2", "f4", "f5"]
        check_invariants(catalog, "t")


@pytest.mark.usefixtures("kills")
def test_removed_files_are_not_doubled(catalog_uri, tmp_path, monkeypatch):
    """Files that are removed later have no unique key that would tell."""
    log = [[add(f"f{v}", v)] for v in range(6)]
    log[5] = [remove("f3", 5), remove("f4", 5), remove("never", 5)]
    root = write_log(tmp_path / "t", log)
    killed_in_second_segment(catalog_uri, root, monkeypatch)
    with deltasql.connect(catalog_uri) as catalog:
        do_import(catalog, root, resume=True, up_to_version=1)
        done = do_import(catalog, root, resume=True)
        assert done.validation.is_equal
        assert files_of(catalog, done.row.table_id, 4) == ["f0", "f1", "f2", "f3", "f4"]


@pytest.mark.usefixtures("kills")
def test_a_checkpoint_takes_the_place_of_a_begun_segment(
    catalog_uri, second_uri, tmp_path, monkeypatch
):
    deltalake = pytest.importorskip("deltalake")
    log = [[add(f"f{v}", v)] for v in range(6)]
    log[5].append(remove("f3", 5))
    root = write_log(tmp_path / "t", log)
    cut_by(monkeypatch, [6])
    with (
        deltasql.connect(catalog_uri) as catalog,
        hooked(stop_at("after-import-window", 3)),
        pytest.raises(KillError),
    ):
        do_import(catalog, root)
    deltalake.DeltaTable(str(root), version=0).create_checkpoint()
    (root / commit_key(0)).unlink()
    with deltasql.connect(second_uri) as whole:
        expected = book_rows(whole, do_import(whole, root).row.table_id)
    with deltasql.connect(catalog_uri) as catalog:
        done = do_import(catalog, root, resume=True, validate=False)
        assert files_of(catalog, done.row.table_id) == ["f0", "f1", "f2", "f4", "f5"]
        assert differing(book_rows(catalog, done.row.table_id), expected) == set()


def test_a_remove_of_an_unknown_file_does_not_end_its_later_add(
    catalog_uri, second_uri, tmp_path, monkeypatch
):
    """The remove and the add are in one segment, which is not the first."""
    log = [[add("x", 0)], [add("y", 1)], [remove("k", 2)], [add("z", 3)], [add("k", 4)]]
    root = write_log(tmp_path / "t", log)
    with deltasql.connect(second_uri) as whole:
        expected = book_rows(whole, do_import(whole, root).row.table_id)
    cut_by(monkeypatch, [2, 3])
    with deltasql.connect(catalog_uri) as catalog:
        done = do_import(catalog, root, validate=False)
        assert files_of(catalog, done.row.table_id) == ["k", "x", "y", "z"]
        assert differing(book_rows(catalog, done.row.table_id), expected) == set()


@pytest.mark.parametrize("has_add", [True, False])
def test_metadata_closes_columns_with_adds_and_without(catalog_uri, tmp_path, has_add):
    root = write_log(tmp_path / "t", [[add("x", 0)]])
    with deltasql.connect(catalog_uri) as catalog:
        do_import(catalog, root)
        more = [add("y", 1)] if has_add else []
        write_commit(root, 1, [metadata((("id", "string"), ("p", "string"))), *more])
        done = do_import(catalog, root, resume=True)
        with inspect(catalog).database.read() as tx:
            rows = tx.fetch_all("stats_columns", table_id=done.row.table_id)
        assert ("id", "long", 1) in [(row[1], row[2], row[5]) for row in rows]


def test_times_of_commits_do_not_depend_on_cuts(catalog_uri, second_uri, tmp_path, monkeypatch):
    """A commit's own time goes back, and later ones tell none."""
    rules = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": []}
    first = [
        {"protocol": rules | {"writerFeatures": ["inCommitTimestamp"]}},
        metadata(**{"delta.enableInCommitTimestamps": "true"}),
    ]
    off = [metadata(**{"delta.enableInCommitTimestamps": "false"})]
    root = tmp_path / "t"
    for version, told in enumerate([1000, 9_000_000, 2_000, None, None]):
        more = {} if told is None else {"inCommitTimestamp": told}
        actions = [*(first if version == 0 else off if version == 3 else []), add(f"f{version}")]
        write_commit(root, version, actions, seconds=3.0 + version, **more)

    def times(uri, sizes):
        cut_by(monkeypatch, sizes)
        with deltasql.connect(uri) as catalog:
            row = do_import(catalog, root, lenient=True).row
            return book_rows(catalog, row.table_id)["dl_table_versions"], row.last_ict

    assert times(catalog_uri, [5]) == times(second_uri, [3, 2])


@pytest.mark.usefixtures("kills")
def test_a_run_that_dies_while_it_removes_them_leaves_them_to_the_next(
    catalog_uri, second_uri, tmp_path, monkeypatch
):
    root = write_log(tmp_path / "t", [[add(f"f{v}", v)] for v in range(6)])
    with deltasql.connect(second_uri) as whole:
        expected = book_rows(whole, do_import(whole, root).row.table_id)
    killed_in_second_segment(catalog_uri, root, monkeypatch)
    with (
        deltasql.connect(catalog_uri) as catalog,
        hooked(stop_at("before-import-settled", 1)),
        pytest.raises(KillError),
    ):
        do_import(catalog, root, resume=True)
    with deltasql.connect(catalog_uri) as catalog:
        done = do_import(catalog, root, resume=True)
        assert differing(book_rows(catalog, done.row.table_id), expected) == set()
