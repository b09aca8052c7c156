"""The roles of `deploy/postgres/roles.sql`: each does its whole work, and nothing else."""

import re
import subprocess
import sys
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest

import pg_roles
from builders import a_table, ids, rows
from contests import was_checked_before
from deltasql.database import migrations
from deltasql.errors import PermissionDeniedError
from deltasql.protocol.schema.types import Primitive, StructField
from deltasql.settings import MirrorSettings, Settings
from deltasql.testing import inspect
from deltasql.testing.invariants import check_invariants
from foreign import a_foreign_file, put_foreign
from pg_roles import RoleDatabase

LATER = Settings(mirror=MirrorSettings(mode="worker"))
DAY = 24 * 3600 * 1000
MORE = [StructField("more", Primitive("long"))]
pytestmark = pytest.mark.req("R96")


@pytest.fixture(scope="module")
def lake(postgres_server) -> RoleDatabase:
    return pg_roles.make_lake(postgres_server)


@pytest.fixture
def table(lake, tmp_path, fresh_name):
    """The name of a table that the operator has made, with two rows."""
    with lake.connect("operator") as catalog:
        a_table(catalog, tmp_path, fresh_name).append(rows(1, 2))
    yield fresh_name
    with lake.connect("operator") as catalog:
        if fresh_name in {one.name for one in catalog.tables()}:
            catalog.drop(fresh_name, force=True)


@contextmanager
def denied(relation: str, lacking: str = ""):
    """The refusal is ours: one sentence with the role, and a hint that names the right."""
    with pytest.raises(PermissionDeniedError) as error:
        yield
    told = error.value
    assert re.fullmatch(r"Role '\w+_login' may not do this: .*[^.]\.", told.message), told.message
    assert relation in told.message
    assert lacking in told.advice
    assert "The guide on least rights" in told.advice
    assert not told.retryable


def test_a_reader_sees_everything(lake, table):
    with lake.connect("reader") as catalog:
        found = catalog.table(table)
        assert ids(found) == [1, 2]
        assert ids(found, where="id > 1") == [2]
        assert found.snapshot(version=0).files().num_rows == 0
        assert found.snapshot().files().num_rows == 1
        assert [entry.version for entry in found.history()] == [1, 0]
        assert found.changes(0)
        assert found.detail()["version"] == 1
        assert catalog.mirror.status(table)["lag_versions"] == 0
        assert catalog.mirror.verify(table) == []
        assert migrations.status(inspect(catalog).database).missing == ()
        check_invariants(catalog, table)


def test_a_reader_changes_nothing(lake, table, tmp_path):
    with lake.connect("reader") as catalog:
        found = catalog.table(table)
        with denied("dl_tables", "lacks INSERT, UPDATE, DELETE on dl_tables"):
            found.delete("day = 'a'")
        with denied("dl_counters", "lacks INSERT, UPDATE, DELETE on dl_counters"):
            found.append(rows(3))
        with denied("dl_tables"):
            a_table(catalog, tmp_path, "another")
        with denied("dl_tables"):
            catalog.drop(table)
        with denied("dl_tables"):
            catalog.mirror.pause(table)
        with denied("dl_leases"):
            catalog.mirror.checkpoint(table)
        assert found.refresh().current_version == 1
        assert ids(found) == [1, 2]


@pytest.mark.parametrize("settings", [None, LATER], ids=["inline", "worker"])
def test_a_writer_commits_of_every_kind(lake, table, settings):
    with lake.connect("writer", settings=settings) as catalog:
        found = catalog.table(table)
        found.append(rows(3, day="b"))
        found.append(rows(*range(4, 10)), txn=("loader", 7))
        found.delete("day = 'a'")
        found.overwrite(rows(50, 51))
        found.alter(add=MORE)
        with catalog.transaction(operation="LOAD") as tx:
            tx.table(table).append(rows(60))
        found.compact()
        found.restore(version=1)
        assert ids(found) == [1, 2]
    with lake.connect("worker") as catalog:
        catalog.mirror.run_once()
        check_invariants(catalog, table)


def test_a_writer_writes_the_checkpoints_that_its_commits_are_due(lake, table):
    with lake.connect("writer") as catalog:
        found = catalog.table(table)
        for number in range(10, 20):
            found.append(rows(number))
        inspect(catalog).mirroring.checkpoints.finish()
    with lake.connect("reader") as catalog:
        recorded = inspect(catalog).connection.log_files.all(found.table_id)
        assert [file.version for file in recorded] == [10]
        check_invariants(catalog, table)


def test_a_writer_creates_and_ends_no_table(lake, table, tmp_path):
    policy, advice = "only_operators_end_tables", "the work of the operator's role"
    with lake.connect("writer") as catalog:
        with denied("dl_tables", "lacks INSERT, UPDATE of some columns, DELETE on dl_tables"):
            a_table(catalog, tmp_path, "another")
        with denied("dl_tables"):
            catalog.rename(table, "another")
        with denied(policy, advice):
            catalog.drop(table)
        with denied(policy, advice):
            catalog.table(table).detach()
        with lake.connect("operator") as operator:
            operator.drop(table)
        with denied("dl_tables"):
            catalog.undrop_table(table)
        with lake.connect("operator") as operator:
            operator.undrop_table(table)
        with denied("dl_tables"):
            catalog.mirror.pause(table)
        with denied("dl_tables"):
            catalog.table(table).alter(properties={"deltasql.mirror.mode": "off"})
        with denied("dl_tables"):
            catalog.new_epoch()
        assert catalog.table(table).version == 1
        check_invariants(catalog, table)


def test_no_writer_rewrites_history(lake, table):
    with lake.admin() as connection:
        for role in ("reader", "writer", "worker"):
            connection.execute(f'set session authorization "{lake.prefix}_{role}_login"')
            for change in (
                "update dl_table_versions set committer = 'nobody'",
                "delete from dl_table_versions",
                "delete from dl_removed_files",
                "update dl_files set path = 'x'",
                "truncate dl_txn_actions",
                "insert into dl_schema_version values (99, 'x', now())",
                "update dl_tables set state = 'deleted'",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(change)
            connection.execute("reset session authorization")


def test_a_worker_mirrors_checkpoints_and_repairs(lake, table, tmp_path):
    with lake.connect("writer", settings=LATER) as catalog:
        found = catalog.table(table)
        for number in range(10, 20):
            found.append(rows(number))
    with lake.connect("worker") as catalog:
        assert catalog.mirror.run_once().mirrored == 10
        assert catalog.mirror.checkpoint(table) == 11
        folder = next(tmp_path.glob(f"lake-{table}-*")) / "_delta_log"
        (folder / f"{5:020d}.json").unlink()
        assert len(catalog.mirror.verify(table)) == 1
        catalog.mirror.repair(table)
        assert catalog.mirror.verify(table) == []
        check_invariants(catalog, table)


def test_a_worker_queues_what_is_missing_and_stops_a_table_in_conflict(lake, table, tmp_path):
    with lake.connect("writer", settings=LATER) as catalog:
        catalog.table(table).append(rows(3))
    with lake.admin() as connection:
        connection.execute("delete from dl_mirror_status where version = 2")
    folder = next(tmp_path.glob(f"lake-{table}-*")) / "_delta_log"
    (folder / f"{2:020d}.json").write_text('{"foreign":1}\n')
    with lake.connect("worker") as catalog:
        swept = catalog.mirror.run_once()
        assert (swept.mirrored, swept.failed) == (0, 1)
        assert catalog.table(table).refresh().state == "conflict"


def test_a_worker_commits_nothing(lake, table):
    with lake.connect("worker") as catalog:
        found = catalog.table(table)
        with denied("dl_counters"):
            found.append(rows(3))
        with denied("dl_"):
            found.delete("day = 'a'")
        with denied("dl_"):
            found.alter(add=MORE)
        with denied("only_operators_end_tables"):
            catalog.drop(table)
        with denied("dl_tables"):
            catalog.mirror.pause(table)
        assert found.refresh().current_version == 1
        check_invariants(catalog, table)


def test_an_operator_does_everything_but_migrate(lake, tmp_path, fresh_name):
    now = {"ms": 1_800_000_000_000 // DAY * DAY}
    with lake.connect("operator", clock=lambda: now["ms"]) as catalog:
        table = a_table(catalog, tmp_path, fresh_name)
        for number in range(1, 12):
            now["ms"] += DAY
            table.append(rows(number))
        catalog.mirror.pause(fresh_name)
        catalog.mirror.resume(fresh_name)
        catalog.mirror.checkpoint(fresh_name, 10)
        now["ms"] += 60 * DAY
        assert len(catalog.mirror.cleanup(fresh_name)) == 10
        catalog.rename(fresh_name, f"{fresh_name}_new")
        catalog.new_epoch()
    with lake.connect("operator") as catalog:
        catalog.mirror.recover(f"{fresh_name}_new")
        check_invariants(catalog, f"{fresh_name}_new")
        catalog.drop(f"{fresh_name}_new", purge=True)
        other = a_table(catalog, tmp_path, f"{fresh_name}_other")
        other.detach()
        with pytest.raises(psycopg.errors.InsufficientPrivilege), lake.admin() as connection:
            connection.execute(f'set session authorization "{lake.prefix}_operator_login"')
            connection.execute("create table more (x integer)")


def test_an_operator_vacuums_and_a_writer_does_not(lake, table):
    now = {"retain": timedelta(0), "allow_short_retention": True, "orphans": False}
    with lake.connect("writer") as catalog:
        found = catalog.table(table)
        found.overwrite(rows(9))
        assert len(found.vacuum(**now).objects) == 1
        with denied("dl_"):
            found.vacuum(dry_run=False, **now)
        assert ids(found, version=1) == [1, 2]
    with lake.connect("operator") as catalog:
        assert len(catalog.table(table).vacuum(dry_run=False, **now).objects) == 1
        check_invariants(catalog, table)


def test_an_operator_commits_a_foreign_commit_again_and_a_worker_does_not(lake, table):
    with lake.connect("writer") as catalog:
        found = catalog.table(table)
        was_checked_before(found)
        put_foreign(found, 2, a_foreign_file(found, 100), is_blind_append=True)
        found.append(rows(3))
        assert found.refresh().state == "conflict"
    with lake.connect("worker") as catalog, denied("dl_"):
        catalog.mirror.repair(table, recommit=True)
    with lake.connect("operator") as catalog:
        catalog.mirror.repair(table, recommit=True)
        assert ids(catalog.table(table)) == [1, 2, 3, 100]
        check_invariants(catalog, table)


def test_a_right_that_is_taken_away_is_told_for_arrow_too(lake, table):
    """The file list comes by the other driver."""
    with lake.connect("reader") as catalog, lake.admin() as connection:
        snapshot = catalog.table(table).snapshot()
        connection.execute(f'revoke select on dl_files from "{lake.prefix}_reader"')
        try:
            with denied("dl_files", "lacks SELECT, INSERT, UPDATE, DELETE on dl_files"):
                snapshot.files()
        finally:
            lake.run_script()
        assert catalog.table(table).snapshot().files().num_rows == 1


READS = ["tables", "show {t}", "history {t}", "files {t}", "sample {t}", "diff {t} 0 1", "doctor"]
READS += ["mirror status", "mirror status {t}", "-q mirror verify {t}", "db status"]


def run(lake, role, words):
    return subprocess.run(
        [sys.executable, "-m", "deltasql", "-u", lake.uri(role), *words],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.verify
@pytest.mark.parametrize("words", READS)
def test_a_reader_s_commands_work(lake, table, words):
    done = run(lake, "reader", words.format(t=table).split())
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_line_tells_the_right_that_is_missing(lake, table):
    done = run(lake, "reader", ["drop", table, "--yes"])
    assert done.returncode == 1
    login = f"{lake.prefix}_reader_login"
    assert done.stderr == (
        f"error[DS311]: Role '{login}' may not do this: permission denied for table dl_tables.\n"
        "\nhint: The role lacks INSERT, UPDATE, DELETE on dl_tables. The guide on least rights"
        " has a script that grants what readers, writers, workers and operators need.\n"
    )
