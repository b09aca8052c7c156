"""The test servers are what their names say."""

import psycopg
import pytest
from adbc_driver_postgresql import dbapi

from deltasql.uri import PostgresUri, parse_uri


def ask(dsn, query):
    with psycopg.connect(dsn) as connection:
        return connection.execute(query).fetchone()[0]


def test_each_database_is_fresh_and_on_loopback(postgres_server):
    first, second = postgres_server.create_database(), postgres_server.create_database()
    assert first != second
    assert ask(first, "select host(inet_server_addr())") == "127.0.0.1"
    assert ask(first, "show server_version_num").startswith(str(postgres_server.version))


def test_the_other_server_is_another_major_version(postgres_server, other_postgres_server):
    assert other_postgres_server.version != postgres_server.version


def test_the_icu_server_does_not_sort_bytewise(postgres_server, icu_postgres_server):
    order = "select string_agg(x, '' order by x) from (values ('a'), ('B'), ('c')) as t(x)"
    assert ask(postgres_server.create_database(), order) == "Bac"
    assert ask(icu_postgres_server.create_database(), order) == "aBc"


def test_the_durable_server_keeps_a_commit_over_a_crash(durable_postgres_server):
    dsn = durable_postgres_server.create_database()
    with psycopg.connect(dsn) as connection:
        connection.execute("create table t as select 7 as x")
    durable_postgres_server.stop("immediate")
    durable_postgres_server.start()
    assert ask(dsn, "select x from t") == 7
    assert ask(dsn, "show fsync") == "on"


@pytest.mark.req("R89")
def test_both_drivers_take_the_conninfo_of_a_uri(postgres_server):
    uri = parse_uri(postgres_server.uri(postgres_server.create_database_name(), "meta"))
    assert isinstance(uri, PostgresUri)
    assert ask(uri.conninfo(), "select current_database()") == uri.database
    with dbapi.connect(uri.conninfo()) as connection, connection.cursor() as cursor:
        cursor.execute("select current_database()")
        assert cursor.fetchone() == (uri.database,)
