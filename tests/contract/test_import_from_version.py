"""An import from a version on has what a full import of the same log has from that version on."""

import shutil

import deltalake
import pyarrow as pa
import pytest

import deltasql
from cut_histories import DAY, daily_log, do_import, removed_through, versions_of, whole_checkpoint
from deltasql.errors import (
    BadArgumentError,
    NotResumableError,
    VersionNotFoundError,
)
from deltasql.imports.cutover import cut_over
from deltasql.imports.engines.local import LocalEngine
from deltasql.imports.job import ImportOptions
from deltasql.imports.preview import DryRun
from deltasql.imports.read import tasks
from deltasql.imports.read.tasks import LogReader
from deltasql.imports.validate.validator import Verdict, validate_table, verdict_of
from deltasql.metastore.table_row import TableState
from deltasql.protocol.log_names import commit_key
from deltasql.testing import check_invariants, inspect
from histories import START
from import_logs import add, write_log
from legacy import checkpoint_at, fingerprint, spoil

pytestmark = pytest.mark.req("R80")
HEAD, OLDEST = 29, 17


@pytest.fixture
def catalog(catalog_uri):
    with deltasql.connect(catalog_uri) as opened:
        yield opened


def require_same(catalog, second_uri, root, oldest=OLDEST):
    """Compare with a full import, which another catalog makes, from the oldest version on."""
    with deltasql.connect(second_uri) as other:
        do_import(other, root)
        assert versions_of(catalog, "t", oldest) == versions_of(other, "t", oldest)
        return removed_through(other, "t")


def require_begins(catalog, oldest=OLDEST, head=HEAD):
    table = catalog.table("t")
    assert [entry.version for entry in table.history()] == list(range(head, oldest - 1, -1))
    for version in (0, oldest - 1):
        with pytest.raises(VersionNotFoundError, match=f"it has {oldest} to {head}"):
            table.snapshot(version=version)
    with pytest.raises(VersionNotFoundError):
        table.snapshot(timestamp=START + (oldest - 1) * DAY)
    assert table.snapshot(timestamp=START + oldest * DAY + 1).version == oldest
    with pytest.raises(VersionNotFoundError, match="has forgotten what came before"):
        table.changes(oldest - 2, head)


@pytest.mark.parametrize("checkpoint", [None, 12, OLDEST - 1, OLDEST])
def test_all_versions_that_remain_are_those_of_the_log(
    catalog, second_uri, tmp_path, monkeypatch, checkpoint
):
    monkeypatch.setattr(tasks, "TASK_VERSIONS", 4)
    root = daily_log(tmp_path / "t", 3, vectors=True)
    if checkpoint is not None:
        whole_checkpoint(root, checkpoint)
    before = fingerprint(root)
    done = do_import(catalog, root, from_version=OLDEST)
    assert (done.plan.base_version, done.plan.first) == (checkpoint, checkpoint or 0)
    assert done.row.state is TableState.READ_ONLY
    assert (done.row.oldest_version, done.row.log_floor) == (OLDEST, OLDEST)
    assert list(done.validation.lines()) == []
    assert fingerprint(root) == before
    require_begins(catalog)
    require_same(catalog, second_uri, root)


def test_tombstones_stay_as_long_as_a_checkpoint_needs_them(catalog, second_uri, tmp_path):
    """The default retention is a week."""
    root = daily_log(tmp_path / "t", 3)
    do_import(catalog, root, from_version=OLDEST)
    every = require_same(catalog, second_uri, root)
    assert every[0] < OLDEST - 7
    assert removed_through(catalog, "t") == [v for v in every if v >= OLDEST - 7]


def test_a_retention_that_cannot_be_read_keeps_all_tombstones(catalog, tmp_path):
    root = daily_log(tmp_path / "t", 3)
    first = root / commit_key(0)
    kept = b'"configuration": {"delta.deletedFileRetentionDuration": "a while", '
    first.write_bytes(first.read_bytes().replace(b'"configuration": {', kept))
    for version in range(1, HEAD + 1):  # the last metaData counts
        path = root / commit_key(version)
        path.write_bytes(path.read_bytes().replace(b'"configuration": {', kept))
    done = do_import(catalog, root, from_version=OLDEST)
    assert done.validation.is_equal
    assert removed_through(catalog, "t")[0] < OLDEST - 7


@pytest.mark.parametrize("oldest", [0, 1, HEAD])
def test_the_first_and_the_last_version_may_be_the_oldest(catalog, second_uri, tmp_path, oldest):
    root = daily_log(tmp_path / "t", 5)
    done = do_import(catalog, root, from_version=oldest)
    assert done.row.oldest_version == oldest
    assert done.validation.is_equal
    require_same(catalog, second_uri, root, oldest)
    assert ("from_version" in done.row.properties["import_metadata"]) == (oldest > 0)


def test_an_import_may_end_before_the_head_and_go_on(catalog, second_uri, tmp_path):
    root = daily_log(tmp_path / "t", 6)
    checkpoint_at(root, 12)
    done = do_import(catalog, root, from_version=OLDEST, up_to_version=20)
    require_begins(catalog, head=20)
    done = do_import(catalog, root, resume=True)
    assert done.counts.versions == HEAD - 20
    assert done.validation.is_equal
    require_begins(catalog)
    require_same(catalog, second_uri, root)
    assert do_import(catalog, root, resume=True, from_version=OLDEST).counts.versions == 0


def test_an_import_goes_on_with_the_version_that_it_was_begun_with(catalog, tmp_path):
    root = daily_log(tmp_path / "t", 6)
    do_import(catalog, root, from_version=OLDEST, up_to_version=20)
    for other in (0, OLDEST - 1, OLDEST + 1):
        with pytest.raises(NotResumableError, match=f"begun with the versions from {OLDEST} on"):
            do_import(catalog, root, resume=True, from_version=other)
    with pytest.raises(BadArgumentError, match="cannot end at version 9"):
        do_import(catalog, root, resume=True, up_to_version=9)
    do_import(catalog, root, "t", force=True)
    assert inspect(catalog).metastore.table("t").oldest_version == 0
    with pytest.raises(NotResumableError, match="begun with all versions"):
        do_import(catalog, root, resume=True, from_version=OLDEST)


def test_a_source_that_cleans_up_past_the_oldest_version_is_followed(catalog, tmp_path):
    root = daily_log(tmp_path / "t", 6)
    do_import(catalog, root, from_version=OLDEST, up_to_version=20)
    checkpoint_at(root, 21)
    for version in range(21):
        (root / commit_key(version)).unlink()
    done = do_import(catalog, root, resume=True)
    assert done.validation.is_equal
    require_begins(catalog)


def test_a_hole_below_the_base_checkpoint_is_no_hole_of_the_import(catalog, tmp_path):
    root = daily_log(tmp_path / "t", 6)
    checkpoint_at(root, 12)
    (root / commit_key(5)).unlink()
    do_import(catalog, root, from_version=OLDEST, up_to_version=20)
    assert do_import(catalog, root, resume=True).validation.is_equal
    require_begins(catalog)


def test_a_corrupt_checkpoint_gives_way_to_the_next_below(catalog, second_uri, tmp_path):
    root = daily_log(tmp_path / "t", 6)
    checkpoint_at(root, 9)
    spoil(checkpoint_at(root, 14))
    done = do_import(catalog, root, from_version=OLDEST)
    assert done.row.first_version == 9
    assert "corrupt-checkpoint" in {str(one.code) for one in done.warnings}
    assert done.validation.is_equal
    require_begins(catalog)
    require_same(catalog, second_uri, root)
    assert validated(catalog).is_equal


def test_force_replaces_a_table_by_its_newer_versions(catalog, second_uri, tmp_path):
    root = daily_log(tmp_path / "t", 7)
    old = do_import(catalog, root).row
    new = do_import(catalog, root, force=True, from_version=OLDEST).row
    assert new.table_id != old.table_id
    require_begins(catalog)
    require_same(catalog, second_uri, root)


def validated(catalog):
    row = inspect(catalog).metastore.table("t")
    store = inspect(catalog).connection.store_of(row)
    return validate_table(inspect(catalog).connection, "t", LocalEngine(), LogReader(lambda: store))


OTHER_PROPERTY = """
update dl_metadata_updates
set configuration = '{{}}', action = replace(action, '"user.version":', '"user.other":')
where table_id = '{t}' and version < 17"""
NO_TXNS = "delete from dl_txn_actions where table_id = '{t}' and version < 17"
OTHER_SIZE = """
update dl_removed_files set size = size + 1
where table_key = {k} and removed_version > 17 and added_version < 17"""


@pytest.mark.parametrize(
    ("text", "check"),
    [
        (OTHER_PROPERTY, "metadata"),
        (NO_TXNS, "txns"),
        (OTHER_SIZE, "files of all versions"),
    ],
)
def test_what_the_oldest_version_has_from_before_is_compared(catalog, tmp_path, text, check):
    root = daily_log(tmp_path / "t", 22)
    first = do_import(catalog, root, from_version=OLDEST).row
    assert validated(catalog).is_equal
    text = text.format(t=first.table_id, k=first.table_key)
    with inspect(catalog).database.write() as tx:
        is_sqlite = inspect(catalog).database.dialect.name == "sqlite"
        tx.connection.execute(text if is_sqlite else text.encode())
    outcome = validated(catalog)
    assert check in [one.name for one in outcome.failed]
    assert verdict_of(inspect(catalog).metastore.table("t")) is Verdict.DIFFERENT


def test_sql_takes_over_a_log_of_which_it_has_the_newer_versions(catalog, tmp_path):
    root = daily_log(tmp_path / "t", 6)
    checkpoint_at(root, 12)
    old = {v: (root / commit_key(v)).read_bytes() for v in range(HEAD + 1)}
    done = do_import(catalog, root, from_version=OLDEST)
    assert cut_over(inspect(catalog).connection, "t").version == HEAD + 1
    table = catalog.table("t")
    table.append(pa.table({"id": [1], "p": ["a"]}))
    table.wait_mirrored(timeout=30.0)
    catalog.mirror.checkpoint("t")
    assert catalog.mirror.verify("t") == []
    assert {v: (root / commit_key(v)).read_bytes() for v in old} == old
    require_begins(catalog, head=HEAD + 2)
    assert done.row.table_id == inspect(catalog).metastore.table("t").table_id


def test_a_preview_tells_what_the_import_does(catalog, tmp_path):
    root = daily_log(tmp_path / "t", 6)
    checkpoint_at(root, 12)
    connection = catalog._lazy.create().connection
    wanted = ImportOptions(from_version=OLDEST)
    quick = DryRun(connection, str(root), "t", wanted).quick()
    whole = DryRun(connection, str(root), "t", wanted).whole()
    done = do_import(catalog, root, from_version=OLDEST)
    assert (quick.first, quick.versions) == (whole.first, whole.versions) == (OLDEST, 13)
    assert whole.counts == done.counts
    assert whole.live_files == connection.metastore.snapshot(done.row.table_id).summary().files
    assert whole.warnings == done.warnings
    shutil.copy(root / commit_key(HEAD), root / commit_key(HEAD + 1))
    later = DryRun(connection, str(root), "t", ImportOptions(resume=True)).quick()
    assert (later.first, later.versions) == (HEAD + 1, 1)


def test_what_cannot_be_the_oldest_version_is_refused_and_leaves_nothing(catalog, tmp_path):
    root = daily_log(tmp_path / "t", 6)
    checkpoint_at(root, 12)
    for version in range(12):
        (root / commit_key(version)).unlink()
    with pytest.raises(VersionNotFoundError, match="begin at is 12"):
        do_import(catalog, root, from_version=11)
    with pytest.raises(VersionNotFoundError, match=f"ends at version {HEAD}"):
        do_import(catalog, root, from_version=HEAD + 1)
    for options in (
        {"from_version": -1},
        {"from_version": "12"},
        {"from_version": 13, "checkpoint_only": True},
        {"from_version": 13, "up_to_version": 12},
    ):
        with pytest.raises(BadArgumentError):
            catalog.import_table(str(root), "t", engine="local", **options)
    assert catalog.tables() == []
    done = catalog.import_table(str(root), "t", engine="local", from_version=12)
    assert done.row.oldest_version == 12


@pytest.mark.req("R80")
def test_a_lost_commit_from_before_the_first_version_is_replaced_by_a_checkpoint(
    catalog_uri, tmp_path
):
    """The log reads from its beginning, and SQL does not have those versions."""
    root = write_log(tmp_path / "t", [[add(f"f{v}", v)] for v in range(6)])
    with deltasql.connect(catalog_uri) as catalog:
        do_import(catalog, root, from_version=3)
        catalog.cutover("t", fence=False)
        assert deltalake.DeltaTable(str(root)).version() == 6
        check_invariants(catalog, "t")
        (root / commit_key(1)).unlink()
        assert [f.key for f in catalog.mirror.verify("t")] == [commit_key(1)]
        assert [done.done for done in catalog.mirror.repair("t")] == [True]
        assert catalog.mirror.verify("t") == []
    assert deltalake.DeltaTable(str(root)).version() == 6
