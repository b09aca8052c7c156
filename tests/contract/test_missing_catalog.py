"""A wrong URI is an error, not an empty catalog: looking makes and leaves nothing."""

import shutil
import sqlite3
import threading
from contextlib import closing

import psycopg
import pytest
from deltalake import write_deltalake

import deltasql
from builders import NO_MIRROR, a_table, ids, rows
from deltasql.api.connect import initialize, open_database
from deltasql.errors import CatalogError, DeltaSqlError, SchemaMissingError
from deltasql.settings import Settings, SqlSettings
from deltasql.uri import PostgresUri, parse_uri

LOOKS = {
    "tables": lambda catalog: catalog.tables(),
    "table": lambda catalog: catalog.table("orders"),
    "unfinished_imports": lambda catalog: catalog.unfinished_imports(),
    "catalog_id": lambda catalog: catalog.catalog_id,
    "new_epoch": lambda catalog: catalog.new_epoch(),
    "drop": lambda catalog: catalog.drop("orders"),
    "rename": lambda catalog: catalog.rename("orders", "sales"),
    "cutover": lambda catalog: catalog.cutover("orders"),
    "transaction": lambda catalog: catalog.transaction(),
    "status": lambda catalog: catalog.mirror.status("orders"),
    "worker": lambda catalog: catalog.mirror.run(threading.Event()),
    "run_once": lambda catalog: catalog.mirror.run_once(),
    "find": lambda catalog: catalog.imports.find("/lake/orders", "orders"),
}


@pytest.fixture(params=["sqlite", "postgres"])
def nowhere(request, tmp_path):
    """A URI that points to no catalog, and what is there now."""
    if request.param == "sqlite":
        folder = tmp_path / "databases"
        folder.mkdir()
        return f"deltasql://sqlite/{folder}/typo.db", lambda: sorted(folder.iterdir())
    server = request.getfixturevalue("postgres_server")
    uri = server.uri(server.create_database_name(), "typo")
    parsed = parse_uri(uri)
    assert isinstance(parsed, PostgresUri)

    def relations():
        with psycopg.connect(parsed.conninfo()) as connection:
            found = connection.execute(
                "select nspname from pg_namespace where nspname !~ '^pg_' union all"
                " select relname from pg_class where relname ~ '^dl_' order by 1"
            )
            return found.fetchall()

    return uri, relations


@pytest.mark.parametrize("name", LOOKS)
def test_looking_where_no_catalog_is_reports_it_and_makes_nothing(nowhere, name):
    uri, what_is_there = nowhere
    before = what_is_there()
    with deltasql.connect(uri) as catalog:
        for _ in range(2):
            with pytest.raises(SchemaMissingError) as failure:
                LOOKS[name](catalog)
    assert failure.value.code == "DS309"
    assert "There is no catalog" in failure.value.message
    assert "db init" in failure.value.advice
    assert what_is_there() == before


def test_connecting_makes_nothing(nowhere):
    uri, what_is_there = nowhere
    before = what_is_there()
    catalog = deltasql.connect(uri)
    catalog.close()
    assert what_is_there() == before
    with pytest.raises(CatalogError, match="closed"):
        catalog.tables()
    with pytest.raises(CatalogError, match="closed"):
        catalog.create_if_missing()
    assert what_is_there() == before


def test_where_the_settings_forbid_it_nothing_is_made(nowhere):
    uri, what_is_there = nowhere
    before = what_is_there()
    strict = Settings(sql=SqlSettings(schema="error"))
    with pytest.raises(SchemaMissingError):
        deltasql.connect(uri, settings=strict)
    assert what_is_there() == before


def _import(catalog, tmp_path):
    write_deltalake(tmp_path / "old", rows(1))
    return catalog.import_table(str(tmp_path / "old"), "orders", engine="local")


CREATIONS = {
    "create_table": a_table,
    "import_table": _import,
    "create_if_missing": lambda catalog, _: catalog.create_if_missing(),
}


@pytest.mark.parametrize("name", CREATIONS)
def test_a_call_that_creates_something_makes_the_catalog(nowhere, tmp_path, name):
    uri, what_is_there = nowhere
    before = what_is_there()
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        CREATIONS[name](catalog, tmp_path)
        catalog.create_if_missing()
        made = catalog.catalog_id
        names = [info.name for info in catalog.tables()]
    assert what_is_there() != before
    with deltasql.connect(uri) as again:
        assert again.catalog_id == made
        assert [info.name for info in again.tables()] == names


def test_a_catalog_that_another_makes_meanwhile_is_found(nowhere, tmp_path):
    uri, _ = nowhere
    with deltasql.connect(uri) as early:
        with pytest.raises(SchemaMissingError):
            early.tables()
        with deltasql.connect(uri) as maker:
            a_table(maker, tmp_path).append(rows(1))
        assert ids(early.table("orders")) == [1]
        with deltasql.connect(uri) as maker:
            assert maker.catalog_id == early.catalog_id


def test_two_threads_that_create_first_make_one_catalog(nowhere, tmp_path):
    uri, _ = nowhere
    failures = []
    with deltasql.connect(uri) as one, deltasql.connect(uri) as other:

        def create(catalog, name):
            try:
                a_table(catalog, tmp_path / name, name)
            except DeltaSqlError as error:
                failures.append(error)

        calls = [(one, "a"), (one, "b"), (other, "c")]
        threads = [threading.Thread(target=create, args=call) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert failures == []
        assert one.catalog_id == other.catalog_id
        assert [info.name for info in one.tables()] == ["a", "b", "c"]


def test_an_existing_schema_without_tables_is_told_from_a_missing_one(postgres_server):
    name = postgres_server.create_database_name()
    missing = "schema typo: the schema does not exist"
    with (
        deltasql.connect(postgres_server.uri(name, "typo")) as catalog,
        pytest.raises(SchemaMissingError, match=missing),
    ):
        catalog.tables()
    empty = "schema public: the schema has no deltasql tables"
    with (
        deltasql.connect(postgres_server.uri(name, "public")) as catalog,
        pytest.raises(SchemaMissingError, match=empty),
    ):
        catalog.tables()


# What a path may lead to instead of a catalog in SQLite.


def _nothing(path):
    pass


def _empty(path):
    path.touch()


def _text(path):
    path.write_text("id,amount\n" * 100)


def _folder(path):
    path.mkdir()


def _no_folder(path):
    path.parent.rmdir()


def _rollback(path):
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("create table sales (id)")


def _write_ahead(path):
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("pragma journal_mode = wal")
        database.execute("create table sales (id)")


def _killed(path):
    """A database whose program has died: its log was left."""
    with closing(sqlite3.connect(path.with_suffix(".open"))) as database:
        database.execute("pragma journal_mode = wal")
        database.execute("create table sales (id)")
        database.commit()
        shutil.copy(path.with_suffix(".open"), path)
        shutil.copy(path.with_suffix(".open-wal"), f"{path}-wal")
    path.with_suffix(".open").unlink()


PLACES = {
    _nothing: "there is no such file",
    _empty: "the file is empty",
    _text: "the file is not a SQLite database",
    _folder: "it is a folder",
    _no_folder: "there is no such file",
    _rollback: "the database there has no deltasql tables",
    _write_ahead: "the database there has no deltasql tables",
    _killed: "the database there has no deltasql tables",
}


def _contents(folder):
    files = sorted(folder.rglob("*")) if folder.exists() else []
    return [(str(file), file.read_bytes() if file.is_file() else None) for file in files]


@pytest.mark.parametrize("make", PLACES, ids=lambda make: make.__name__.strip("_"))
def test_what_is_there_instead_is_named_and_left_as_it_is(tmp_path, make):
    folder = tmp_path / "databases"
    folder.mkdir()
    path = folder / "typo.db"
    make(path)
    before = _contents(folder)
    uri = f"deltasql://sqlite/{path}"
    with deltasql.connect(uri) as catalog, pytest.raises(SchemaMissingError) as failure:
        catalog.tables()
    assert failure.value.message == f"There is no catalog at {path}: {PLACES[make]}."
    with pytest.raises(SchemaMissingError):
        open_database(parse_uri(uri))
    assert _contents(folder) == before


def test_the_database_of_another_program_is_read_with_its_log_while_it_runs(tmp_path):
    path = tmp_path / "databases" / "app.db"
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as database:
        database.execute("pragma journal_mode = wal")
        database.execute("create table sales (id)")
        database.commit()
        names = sorted(path.parent.iterdir())
        with (
            deltasql.connect(f"deltasql://sqlite/{path}") as catalog,
            pytest.raises(SchemaMissingError, match="no deltasql tables"),
        ):
            catalog.tables()
        assert sorted(path.parent.iterdir()) == names
        database.execute("insert into sales values (1)")
        database.commit()


def test_a_catalog_without_its_lock_file_is_found_in_the_log_alone(tmp_path):
    """A copy of a catalog's files, made while it was open, lacks neither tables nor commits."""
    uri = f"deltasql://sqlite/{tmp_path}/catalog.db"
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        a_table(catalog, tmp_path)
        copy = tmp_path / "copy"
        copy.mkdir()
        for side in ("", "-wal"):
            shutil.copy(f"{tmp_path}/catalog.db{side}", copy)
    assert (copy / "catalog.db-wal").stat().st_size
    with deltasql.connect(f"deltasql://sqlite/{copy}/catalog.db") as found:
        assert [info.name for info in found.tables()] == ["orders"]


def test_an_empty_file_becomes_a_catalog_by_the_first_creation(tmp_path):
    (tmp_path / "c.db").touch()
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/c.db") as catalog:
        a_table(catalog, tmp_path).append(rows(1))
        assert ids(catalog.table("orders")) == [1]


def test_a_file_that_is_no_database_is_never_overwritten(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("keep me\n" * 200)
    with (
        deltasql.connect(f"deltasql://sqlite/{path}") as catalog,
        pytest.raises(CatalogError, match="not a"),
    ):
        catalog.create_table("t", location=str(tmp_path / "t"), schema=rows(1).schema)
    assert path.read_text() == "keep me\n" * 200


def test_init_is_safe_to_repeat(catalog_uri):
    database = open_database(parse_uri(catalog_uri), may_create=True)
    assert initialize(database)
    assert initialize(database) == ()
    database.close()
    with deltasql.connect(catalog_uri) as catalog:
        assert catalog.tables() == []
