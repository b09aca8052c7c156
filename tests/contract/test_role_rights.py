"""What `deploy/postgres/roles.sql` grants: exactly that, again and again."""

import psycopg
import pytest

import pg_roles
from deltasql.api.connect import initialize, open_database
from deltasql.errors import PermissionDeniedError, SchemaMissingError
from deltasql.uri import parse_uri
from pg_roles import ROLES, RoleDatabase

pytestmark = pytest.mark.req("R96")


@pytest.fixture(scope="module")
def empty(postgres_server) -> RoleDatabase:
    return pg_roles.prepare(postgres_server)


@pytest.fixture(scope="module")
def lake(postgres_server) -> RoleDatabase:
    return pg_roles.make_lake(postgres_server)


def test_the_script_makes_the_schema_for_the_owner_first(empty):
    """Nobody but the owner creates the catalog; he needs no right on the database."""
    for role in ROLES:
        with empty.connect(role) as catalog:
            with pytest.raises(PermissionDeniedError, match="permission denied for schema"):
                catalog.create_if_missing()
            with pytest.raises(SchemaMissingError, match="has no deltasql tables"):
                catalog.tables()
    with empty.connect("owner") as catalog:
        catalog.create_if_missing()
        assert catalog.tables() == []
    with empty.admin() as connection:
        owners = connection.execute(
            "select distinct tableowner from pg_tables where schemaname = current_schema()"
        ).fetchall()
    assert owners == [(f"{empty.prefix}_owner",)]


def test_what_a_migration_adds_can_be_read_before_the_script_runs_again(lake):
    with lake.admin() as connection:
        connection.execute(f'set role "{lake.prefix}_owner"')
        connection.execute("create table dl_later (x integer)")
        try:
            for role in ROLES:
                connection.execute(f'set session authorization "{lake.prefix}_{role}_login"')
                assert connection.execute("select * from dl_later").fetchall() == []
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute("insert into dl_later values (1)")
        finally:
            connection.execute("reset session authorization")
            connection.execute("drop table dl_later")


def rights(lake) -> dict[tuple[str, str], set[str]]:
    """What each role may do to each table, columns as UPDATE(name)."""
    with lake.admin() as connection:
        whole = connection.execute(
            "select grantee, table_name, privilege_type from information_schema.table_privileges"
            " where table_schema = current_schema()"
        ).fetchall()
        columns = connection.execute(
            "select grantee, table_name, privilege_type || '(' || column_name || ')'"
            " from information_schema.column_privileges where table_schema = current_schema()"
            " and privilege_type = 'UPDATE'"
        ).fetchall()
    found: dict[tuple[str, str], set[str]] = {}
    for grantee, relation, right in whole:
        found.setdefault((grantee.removeprefix(f"{lake.prefix}_"), relation), set()).add(right)
    for grantee, relation, right in columns:
        mine = found.setdefault((grantee.removeprefix(f"{lake.prefix}_"), relation), set())
        if "UPDATE" not in mine:
            mine.add(right)
    return found


def test_nobody_but_the_operator_may_change_what_is_written(lake):
    found = rights(lake)
    tables = {relation for role, relation in found if role == "owner"}
    assert "dl_table_versions" in tables
    for relation in tables:
        assert found["reader", relation] == {"SELECT"}
        assert "DELETE" not in found["worker", relation]
        assert not found["operator", relation] & {"TRUNCATE", "REFERENCES", "TRIGGER"}
    deleted = {name for name in tables if "DELETE" in found["writer", name]}
    assert deleted == {"dl_files", "dl_leases"}
    assert {name for name in tables if "INSERT" in found["worker", name]} == {
        "dl_mirror_status",
        "dl_log_files",
        "dl_leases",
    }
    assert found["writer", "dl_partitions"] == {"SELECT", "INSERT", "UPDATE(empty_since)"}
    history = {"dl_table_versions", "dl_payload_chunks", "dl_metadata_updates", "dl_txn_actions"}
    for relation in history:
        assert found["writer", relation] == {"SELECT", "INSERT"}
    mirrored = {"SELECT", "UPDATE(mirrored_through)", "UPDATE(state)"}
    names = ("started_at", "runs")
    verified = (
        *(f"verify_{name}" for name in names),
        "verified_at",
        "verified_version",
        "findings",
    )
    assert found["worker", "dl_tables"] == mirrored | {f"UPDATE({name})" for name in verified}
    assert found["operator", "dl_schema_version"] == {"SELECT"}
    assert found["operator", "dl_tables"] == {"SELECT", "INSERT", "UPDATE"}


def test_the_script_grants_exactly_and_takes_back_what_is_too_much(lake):
    before = rights(lake)
    with lake.admin() as connection:
        connection.execute(f'grant delete on dl_table_versions to "{lake.prefix}_writer"')
        connection.execute(f'grant update (name) on dl_tables to "{lake.prefix}_worker"')
    assert rights(lake) != before
    lake.run_script()
    assert rights(lake) == before


def test_whoever_has_no_role_is_told_so(lake):
    """The server passes over a schema that one may not use: it must not look empty."""
    login = f"{lake.prefix}_nobody_login"
    with lake.admin() as connection:
        connection.execute(f'create role "{login}" login')
        connection.execute(f'grant connect on database "{lake.name}" to "{login}"')
    with pytest.raises(PermissionDeniedError, match="may not use the schema lake catalog") as error:
        lake.connect("nobody")
    assert "USAGE" in error.value.advice


def test_only_the_owner_migrates(lake):
    for role in (*ROLES, "owner"):
        database = open_database(parse_uri(lake.uri(role)))
        try:
            if role == "owner":
                assert initialize(database) == ()
                continue
            with pytest.raises(PermissionDeniedError, match="permission denied for schema") as told:
                initialize(database)
            assert "the work of its schema's owner" in told.value.advice
        finally:
            database.close()
