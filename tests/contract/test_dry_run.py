"""A dry run reads what the import reads, finds what it finds, and changes nothing."""

import shutil

import pytest

import deltasql
from deltasql.errors import MalformedActionError, TableExistsError
from deltasql.imports.job import ImportOptions, TableImport
from deltasql.imports.preview import DryRun
from deltasql.protocol.log_names import commit_key
from deltasql.testing import inspect
from histories import History
from legacy import checkpoint_at, spoil

pytestmark = pytest.mark.req("R66")
VERSIONS = 20


@pytest.fixture
def source(tmp_path):
    return History(13, versions=VERSIONS, vectors=False).write(tmp_path / "t")


@pytest.fixture
def connection(catalog_uri):
    with deltasql.connect(catalog_uri) as catalog:
        catalog.create_if_missing()
        yield inspect(catalog).connection


def truncate(source, version):
    for old in range(version):
        (source / commit_key(old)).unlink()


def both(connection, source, **options):
    wanted = ImportOptions(**options)
    preview = DryRun(connection, str(source), "t", wanted).whole()
    assert connection.metastore.tables() == []
    return preview, TableImport(connection, str(source), "t", wanted).run()


@pytest.mark.parametrize("options", [{}, {"up_to_version": 9}, {"checkpoint_only": True}], ids=str)
def test_the_counts_are_those_of_the_import(connection, source, options):
    checkpoint_at(source, 6)
    preview, done = both(connection, source, **options)
    assert preview.counts == done.counts
    assert (preview.first, preview.plan.head) == (done.row.first_version, done.row.current_version)
    assert preview.live_files == connection.metastore.snapshot(done.row.table_id).summary().files
    assert preview.is_equal


def test_a_corrupt_ground_gives_way_as_in_the_import(connection, source):
    checkpoint_at(source, 14)
    spoil(checkpoint_at(source, 10))
    truncate(source, 10)
    preview, done = both(connection, source)
    assert preview.first == done.row.first_version == 14
    assert preview.counts == done.counts
    assert "corrupt-checkpoint" in {str(one.code) for one in preview.plan.warnings}


def test_a_checkpoint_that_contradicts_its_log_is_found(connection, source, tmp_path):
    other = History(14, versions=VERSIONS, vectors=False).write(tmp_path / "other")
    shutil.copy(checkpoint_at(other, 10), source / "_delta_log")
    preview = DryRun(connection, str(source), "t").whole()
    assert not preview.is_equal
    assert [check.version for check in preview.checks if not check.is_equal] == [10]


def test_what_refuses_the_import_refuses_the_dry_run(connection, source):
    path = source / commit_key(0)
    path.write_bytes(path.read_bytes().splitlines()[0] + b"\n")
    with pytest.raises(MalformedActionError, match="has no protocol"):
        DryRun(connection, str(source), "t").whole()


def test_a_table_that_is_there_is_told_by_both_kinds(connection, source):
    TableImport(connection, str(source), "t").run()
    for look in (DryRun.quick, DryRun.whole):
        with pytest.raises(TableExistsError, match="in state read_only"):
            look(DryRun(connection, str(source), "t"))


def test_only_what_is_left_is_counted_when_an_import_goes_on(connection, source):
    TableImport(connection, str(source), "t", ImportOptions(up_to_version=7)).run()
    preview = DryRun(connection, str(source), "t", ImportOptions(resume=True)).whole()
    done = TableImport(connection, str(source), "t", ImportOptions(resume=True)).run()
    assert (preview.first, preview.versions) == (8, VERSIONS - 8)
    assert preview.counts == done.counts


def test_time_comes_from_how_long_the_log_took_to_read(connection, source):
    ticks = iter([0.0, 100.0])
    slow = DryRun(connection, str(source), "t", clock=lambda: next(ticks)).whole()
    assert 100 < slow.estimate.seconds < 102
