"""Forward migrations on every dialect: applied once, refused when the code is older."""

import json
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

import deltasql
from builders import a_table, rows
from deltasql.catalog import migrations
from deltasql.catalog.dialects.local_disk import refuse_network_file_system
from deltasql.catalog.queries import load_queries
from deltasql.client.connect import initialize, open_database
from deltasql.errors import (
    CatalogError,
    CatalogUnavailableError,
    ConfigError,
    SchemaMissingError,
    SchemaOutdatedError,
    VersionNotFoundError,
)
from deltasql.events import LogVerified
from deltasql.settings import Settings, SqlSettings
from deltasql.uri import parse_uri

STRICT = Settings(sql=SqlSettings(schema="error"))


@pytest.fixture
def database(catalog_uri):
    opened = open_database(parse_uri(catalog_uri), may_create=True)
    yield opened
    opened.close()


def test_a_new_database_gets_every_migration_once(database):
    assert migrations.status(database).version == 0
    applied = initialize(database)
    assert [step.version for step in applied] == [
        step.version for step in migrations.known_migrations(database.dialect.name)
    ]
    assert initialize(database) == ()
    assert migrations.status(database).missing == ()
    migrations.require_current(database)


def test_many_processes_may_initialize_at_once(database, catalog_uri):
    failures = []

    def work() -> None:
        try:
            with deltasql.connect(catalog_uri) as catalog:
                catalog.create_if_missing()
                assert catalog.tables() == []
        except BaseException as error:  # noqa: BLE001 (reported below)
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    with deltasql.connect(catalog_uri) as one, deltasql.connect(catalog_uri) as other:
        assert one.catalog_id == other.catalog_id


def test_a_schema_and_its_identity_appear_together(database, catalog_uri, monkeypatch):
    """A process may look, or die, at any moment: it finds no schema, or one with an identity."""
    seen = []
    original = type(database).write

    @contextmanager
    def watched(self, **options):
        with original(self, **options) as work:
            yield work
        with self.read() as look:
            seen.append(len(look.rows("catalog_row")))

    monkeypatch.setattr(type(database), "write", watched)
    initialize(database)
    assert seen == [1]
    with deltasql.connect(catalog_uri) as catalog:
        assert catalog.catalog_id


def test_a_schema_newer_than_the_code_is_refused(database, catalog_uri):
    initialize(database)
    with database.write() as work:
        work.run("apply_schema_version", version=999, name="future", now=1)
    for refused in (
        lambda: migrations.migrate(database, "id", now=1),
        lambda: migrations.require_current(database),
        lambda: deltasql.connect(catalog_uri),
    ):
        with pytest.raises(SchemaOutdatedError, match="999"):
            refused()


def execute(work, text: str) -> None:
    is_sqlite = hasattr(work.connection, "rows")
    work.connection.execute(text if is_sqlite else text.encode())


def test_a_catalog_that_once_renumbered_commits_is_migrated(database, catalog_uri, tmp_path):
    """The records of old numbers go; the versions, under the numbers that they have, stay."""
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        table_id, history = table.table_id, table.history()
        properties = {"mirror.mode": "worker"}
    older = migrations.known_migrations(database.dialect.name)[2]
    with database.write() as work:
        database.script(older.text, work)
        execute(work, "delete from dl_schema_version where version = 8")
    with database.write() as work:
        execute(
            work,
            "insert into dl_rebased_commits (table_id, renumbering, old_version, new_version, "
            "commit_id, committed_at, operation, payload_bytes, digest, rebased_at) values "
            f"('{table_id}', 1, 0, 1, 'own', 1, 'WRITE', 0, 'd', 1)",
        )
        kept = json.dumps({**properties, "deltasql.renumbered": "1"})
        execute(work, f"update dl_tables set properties = '{kept}'")
    (step,) = initialize(database)
    assert (step.version, step.name) == (8, "no_renumbering")
    with deltasql.connect(catalog_uri) as catalog:
        table = catalog.table("orders")
        assert table.history() == history
        assert table.refresh().properties == properties
        assert table.append(rows(2)) == 2


@pytest.mark.req("R35")
def test_a_catalog_from_before_the_tags_is_migrated(database, catalog_uri, tmp_path):
    """Nothing is known of the objects then; the first verify by a worker reads them all."""
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        for number in range(3):
            table.append(rows(number))
        catalog.mirror.checkpoint("orders", 3)
    with database.write() as work:
        for name, column in [
            ("dl_mirror_status", "object_size"),
            ("dl_mirror_status", "object_tag"),
            ("dl_log_files", "object_tag"),
        ]:
            execute(work, f"alter table {name} drop column {column}")
        execute(work, "delete from dl_schema_version where version = 10")
    initialize(database)
    reported = []
    with deltasql.connect(catalog_uri, sink=reported.append) as catalog:
        catalog.mirror.reconciler().verify.step(threading.Event())
        (event,) = [event for event in reported if isinstance(event, LogVerified)]
        assert (event.findings, event.objects_read, event.objects_by_tag) == (0, 5, 0)
        assert catalog.mirror.verify("orders") == []


def before_table_columns(database) -> None:
    """Take a catalog back to the schema before migration 11; what its columns held is lost."""
    older = {step.version: step.text for step in migrations.known_migrations(database.dialect.name)}
    columns = ("history_floor", "mirror_paused", "verify_started_at", "verified_at")
    with database.write() as work:
        database.script(older[5], work)
        for name in (*columns, "verified_version", "findings", "verify_runs"):
            execute(work, f"alter table dl_tables drop column {name}")
        for name in ("time", "backdated"):
            execute(work, f"drop index dl_table_versions_{name}")
        execute(work, "alter table dl_table_versions drop column is_backdated")
        execute(work, "delete from dl_schema_version where version = 11")


def test_what_was_in_properties_and_verifications_moves_to_columns(database, catalog_uri, tmp_path):
    names = ("paused", "forgetful", "differs", "begun", "plain")
    with deltasql.connect(catalog_uri) as catalog:
        ids = {}
        for name in names:
            table = a_table(catalog, tmp_path, name)
            for number in range(3):
                table.append(rows(number))
            ids[name] = table.table_id
    before_table_columns(database)
    properties = {
        "paused": {"deltasql.paused": "True", "mirror.mode": "worker"},
        "forgetful": {"deltasql.historyFloor": "2"},
        "plain": {"mirror.mode": "inline", "import_metadata": {"a": [1, "é"]}},
    }
    with database.write() as work:
        for name, values in properties.items():
            text = json.dumps(values)
            execute(
                work,
                f"update dl_tables set properties = '{text}' where table_id = '{ids[name]}'",
            )
        execute(
            work,
            "insert into dl_verifications (table_id, started_at, verified_at, version, findings) "
            f"values ('{ids['differs']}', 10, 20, 3, 7), ('{ids['begun']}', 30, null, null, null)",
        )
    (step,) = initialize(database)
    assert (step.version, step.name) == (11, "table_columns")
    with deltasql.connect(catalog_uri) as catalog:
        found = {name: catalog.table(name).refresh() for name in names}
        assert [name for name in names if found[name].mirror_paused] == ["paused"]
        assert {name: row.oldest_version for name, row in found.items() if row.oldest_version} == {
            "forgetful": 2
        }
        assert found["paused"].properties == {"mirror.mode": "worker"}
        assert found["forgetful"].properties == {}
        assert found["plain"].properties == properties["plain"]
        _, verified = catalog._session.verifications.all()
        assert {
            (v.started_at, v.verified_at, v.version, v.findings) for v in verified.values()
        } == {
            (10, 20, 3, 7),
            (30, None, None, None),
        }
        assert set(verified) == {ids["differs"], ids["begun"]}
        assert catalog.table("differs").detail()["mirror"]["findings"] == 7
        with pytest.raises(VersionNotFoundError):
            catalog.table("forgetful").snapshot(version=1)
        assert catalog.table("paused").detail()["mirror"]["mode"] == "off"
        catalog.mirror.resume("paused")
        assert catalog.table("paused").detail()["mirror"]["mode"] == "worker"


def test_versions_get_the_times_that_time_travel_went_by(database, catalog_uri, tmp_path):
    """A version's own time counts, also where it is not later than the one before."""
    written = [(1000, None), (2000, 1500), (3000, 1500), (4000, 1200), (5000, 5000), (6000, None)]
    with deltasql.connect(catalog_uri) as catalog:
        for name in ("orders", "other"):
            table = a_table(catalog, tmp_path, name)
            for number in range(1, len(written)):
                table.append(rows(number))
    before_table_columns(database)
    with database.write() as work:
        for version, (committed, own) in enumerate(written):
            execute(
                work,
                f"update dl_table_versions set committed_at = {committed}, "
                f"in_commit_timestamp = {'null' if own is None else own} where version = {version}",
            )
    initialize(database)
    times = [committed if own is None else own for committed, own in written]
    with deltasql.connect(catalog_uri) as catalog:
        for name in ("orders", "other"):
            table = catalog.table(name)
            assert [entry.committed_at for entry in reversed(table.history())] == times
            for moment in range(1000, 7000, 100):
                expected = max(v for v, time in enumerate(times) if time <= moment)
                assert table.snapshot(timestamp=moment).version == expected, moment


def test_without_leave_to_create_nothing_is_created(catalog_uri):
    kinds = (SchemaMissingError, CatalogUnavailableError)
    with pytest.raises(kinds):
        deltasql.connect(catalog_uri, settings=STRICT)
    with pytest.raises(kinds):
        deltasql.connect(catalog_uri, settings=STRICT)


def test_both_dialects_have_the_same_steps():
    sqlite, postgres = (migrations.known_migrations(name) for name in ("sqlite", "postgres"))
    assert [(s.version, s.name) for s in sqlite] == [(s.version, s.name) for s in postgres]
    assert [step.version for step in sqlite] == list(range(1, len(sqlite) + 1))


def test_every_named_query_is_used_somewhere():
    source = Path(deltasql.__file__).parent
    text = "".join(file.read_text(encoding="utf-8") for file in source.rglob("*.py"))
    for dialect in ("sqlite", "postgres"):
        unused = [name for name in load_queries(dialect) if f'"{name}"' not in text]
        assert unused == []


def test_audit_views_answer_plain_sql(catalog_uri, tmp_path, database):
    with deltasql.connect(catalog_uri, committer="ada") as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        table.delete("day = 'a'")
    import pyarrow as pa

    text = "select version, committer, operation from dl_history order by version"
    schema = pa.schema(
        [("version", pa.int64()), ("committer", pa.string()), ("operation", pa.string())]
    )
    found = database.arrow(text, {}, schema).to_pydict()
    assert found == {
        "version": [0, 1, 2],
        "committer": ["ada"] * 3,
        "operation": ["CREATE TABLE", "WRITE", "DELETE"],
    }
    changes = "select change, version from dl_file_changes order by version"
    kinds = pa.schema([("change", pa.string()), ("version", pa.int64())])
    assert database.arrow(changes, {}, kinds).to_pydict() == {
        "change": ["added", "remove"],
        "version": [1, 2],
    }
    lag = "select versions_behind as n from dl_mirror_lag"
    assert database.arrow(lag, {}, pa.schema([("n", pa.int64())])).to_pydict() == {"n": [0]}


def test_a_network_file_system_is_refused():
    mounts = "disk / ext4 rw 0 0\nserver:/x /mnt/share nfs4 rw 0 0\n"
    refuse_network_file_system(Path("/home/c.db"), mounts)
    with pytest.raises(ConfigError, match="nfs4"):
        refuse_network_file_system(Path("/mnt/share/deep/c.db"), mounts)


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b""])
def test_a_file_that_is_no_database_is_told_as_such(tmp_path, content):
    file = tmp_path / "c.db"
    file.write_bytes(content)
    with deltasql.connect(f"deltasql://sqlite/{file}") as catalog:
        if not content:
            catalog.create_if_missing()
            return
        with pytest.raises(CatalogError):
            catalog.create_if_missing()
    assert file.read_bytes() == content


def test_an_old_minor_version_of_postgres_works_too(other_postgres_server, tmp_path):
    uri = other_postgres_server.uri(other_postgres_server.create_database_name())
    with deltasql.connect(uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1, 2))
        table.delete("day = 'a'")
        assert table.snapshot(where="id > 5").files().num_rows == 0
        assert table.snapshot(version=1, where="id >= 1").files().num_rows == 1
