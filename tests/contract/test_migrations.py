"""Forward migrations on every dialect: applied once, refused when the code is older."""

import re
import threading
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import deltasql
from builders import a_table, rows
from deltasql.api.connect import initialize, open_database
from deltasql.database import migrations
from deltasql.database.named_queries import load_queries
from deltasql.database.sqlite import refuse_network_file_system
from deltasql.errors import (
    CatalogError,
    CatalogUnavailableError,
    ConfigError,
    SchemaMissingError,
    SchemaOutdatedError,
)
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

    def tx() -> None:
        try:
            with deltasql.connect(catalog_uri) as catalog:
                catalog.create_if_missing()
                assert catalog.tables() == []
        except BaseException as error:  # noqa: BLE001 (reported below)
            failures.append(error)

    threads = [threading.Thread(target=tx) for _ in range(6)]
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
        with original(self, **options) as tx:
            yield tx
        with self.read() as look:
            seen.append(len(look.fetch_all("catalog_row")))

    monkeypatch.setattr(type(database), "write", watched)
    initialize(database)
    assert seen == [1]
    with deltasql.connect(catalog_uri) as catalog:
        assert catalog.catalog_id


def test_a_schema_newer_than_the_code_is_refused(database, catalog_uri):
    initialize(database)
    with database.write() as tx:
        tx.execute("apply_schema_version", version=999, name="future", now=1)
    for refused in (
        lambda: migrations.migrate(database, "id", now=1),
        lambda: migrations.require_current(database),
        lambda: deltasql.connect(catalog_uri),
    ):
        with pytest.raises(SchemaOutdatedError, match="999"):
            refused()


def execute(tx, text: str) -> None:
    is_sqlite = hasattr(tx.connection, "rows")
    tx.connection.execute(text if is_sqlite else text.encode())


def test_a_catalog_of_a_development_version_is_refused(database, catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        a_table(catalog, tmp_path)
    with database.write() as tx:
        execute(tx, "update dl_schema_version set name = 'foundation'")
        tx.execute("apply_schema_version", version=14, name="new_versions", now=1)
    for refused in (
        lambda: initialize(database),
        lambda: migrations.require_current(database),
        lambda: deltasql.connect(catalog_uri).tables(),
    ):
        with pytest.raises(SchemaOutdatedError, match="development version") as caught:
            refused()
        assert "`catalog.mirror.rebuild`" in caught.value.advice


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
        "change": ["added", "removed"],
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


def test_every_table_and_column_is_explained(database, tmp_path, catalog_uri):
    """PostgreSQL shows the sentences, the reference page is made of them; SQLite has no others."""
    with deltasql.connect(catalog_uri) as catalog:
        a_table(catalog, tmp_path)
    (step, *_) = migrations.known_migrations("postgres")
    explained = set(re.findall(r"^comment on column (\w+)\.(\w+) is", step.text, re.MULTILINE))
    queries = {
        "sqlite": "select m.name as relation, c.name as name from sqlite_master m, "
        "pragma_table_info(m.name) c where m.type = 'table' and substr(m.name, 1, 3) = 'dl_'",
        "postgres": "select c.relname::text as relation, a.attname::text as name "
        "from pg_class c join pg_attribute a on a.attrelid = c.oid "
        "where c.relkind = 'r' and a.attnum > 0 "
        "and c.relnamespace = current_schema()::regnamespace",
    }
    schema = pa.schema([("relation", pa.string()), ("name", pa.string())])
    found = database.arrow(queries[database.dialect.name], {}, schema)
    columns = {tuple(row.values()) for row in found.to_pylist()}
    own = {("dl_schema_version", name) for name in ("version", "name", "applied_at")}
    assert len(columns) > 100
    assert columns - explained == own
