"""Catalog URIs become typed values, and a password never shows."""

import copy
import pickle
import traceback

import pytest

from deltasql.errors import BadUriError, ConfigError
from deltasql.uri import PostgresUri, Secret, SqliteUri, parse_uri

CANARY = "s3cr3t-canary"


@pytest.mark.req("R89")
@pytest.mark.parametrize(
    ("text", "path", "table"),
    [
        ("deltasql://sqlite/metadata.db", "metadata.db", None),
        ("deltasql://sqlite/a/b.db?table=orders", "a/b.db", "orders"),
        ("deltasql://sqlite//abs/path.db", "/abs/path.db", None),
        ("deltasql://sqlite/with%20space%23.db?table=ns.t%C3%A9", "with space#.db", "ns.té"),
    ],
)
def test_sqlite_uri_names_a_file_and_a_table(text, path, table):
    assert parse_uri(text) == SqliteUri(path, table)


@pytest.mark.req("R89")
def test_postgres_uri_names_database_schema_and_table():
    uri = parse_uri("deltasql://postgres/lake/meta/sales.orders?host=db&port=6432&sslmode=require")
    assert isinstance(uri, PostgresUri)
    assert (uri.database, uri.schema, uri.table) == ("lake", "meta", "sales.orders")
    assert (uri.host, uri.port, uri.parameter("sslmode")) == ("db", "6432", "require")
    assert uri.conninfo() == "dbname='lake' host='db' port='6432' sslmode='require'"


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("postgresql://u@h/db", "public"),
        ("postgres://u@h/db?schema=meta", "meta"),
        ("postgresql://h/db?options=-csearch_path%3Dmeta,public", "meta"),
        ("postgresql://h/db?options=-c%20search_path%3Dmeta", "meta"),
        ("deltasql://postgres/db", "public"),
        ("deltasql://postgres?schema=meta", "meta"),
    ],
)
def test_schema_comes_from_path_query_or_options(text, schema):
    uri = parse_uri(text)
    assert isinstance(uri, PostgresUri)
    assert uri.schema == schema


def test_dsn_takes_user_password_and_several_hosts():
    uri = parse_uri(f"postgresql://me:{CANARY}@a:1,[::1]:2/db")
    assert isinstance(uri, PostgresUri)
    assert (uri.user, uri.host, uri.port) == ("me", "a,::1", "1,2")
    assert uri.password == Secret(CANARY)
    assert f"password='{CANARY}'" in uri.conninfo()


def test_conninfo_quotes_what_libpq_would_misread():
    uri = parse_uri("postgresql://u:a%27b%5Cc%20d@h/db")
    assert isinstance(uri, PostgresUri)
    assert r"password='a\'b\\c d'" in uri.conninfo()


def test_password_file_is_read_only_for_the_connection(tmp_path):
    file = tmp_path / "pw"
    file.write_text(CANARY + "\n")
    uri = parse_uri(f"deltasql://postgres/db?password_file={file}")
    assert isinstance(uri, PostgresUri)
    assert f"password='{CANARY}'" in uri.conninfo()
    assert CANARY not in repr(uri) + str(uri)


def test_missing_password_file_is_named():
    uri = parse_uri("deltasql://postgres/db?password_file=/no/such/file")
    assert isinstance(uri, PostgresUri)
    with pytest.raises(ConfigError, match="/no/such/file"):
        uri.conninfo()


@pytest.mark.req("R96")
@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://u:{CANARY}@h/db",
        f"postgresql://u@h/db?password={CANARY}",
        f"deltasql://postgres/db/s?password={CANARY}&sslpassword={CANARY}",
        f"deltasql://postgres/db?user=me&oauth_client_secret={CANARY}",
    ],
)
def test_no_repr_or_str_shows_a_secret(text):
    uri = parse_uri(text)
    shown = f"{uri!r} {uri} {uri.password!r} {uri.password} {copy.deepcopy(uri)!r}"  # type: ignore[union-attr]
    assert CANARY not in shown
    assert pickle.loads(pickle.dumps(uri)) == uri


@pytest.mark.req("R96")
@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://u:{CANARY}/x@h/db",
        f"postgresql://u:12/{CANARY}@h/db",
        f"postgresql://u:12?{CANARY}@h/db",
        f"postgresql://u:12?w={CANARY}@h/db",
        f"postgresql://u:x#{CANARY}@h/db",
        f"postgresql://u:{CANARY}%ff@h/db",
        f"postgresql://u:[{CANARY}@h/db",
        f"postgresql://u:{CANARY} x@h/db",
        f"deltasql://u:{CANARY}@postgres/db",
        f"deltasql://postgres/db?{CANARY}=1",
        f"deltasql://sqlite/x.db?password={CANARY}",
        f"mysql://u:{CANARY}@h/db",
        f"{CANARY}",
        f"deltasql://postgres/db?password={CANARY}&password_file=/x",
        f"deltasql://postgres/db?password={CANARY}&password={CANARY}",
        f"postgresql://h:{CANARY}/db",
    ],
)
def test_no_error_shows_a_secret(text):
    with pytest.raises(BadUriError) as caught:
        parse_uri(text)
    printed = "".join(traceback.format_exception(caught.value, chain=True))
    printed = "".join(line for line in printed.splitlines() if not line.strip().startswith("parse"))
    assert CANARY not in f"{caught.value!r} {caught.value.context} {caught.value.advice}"
    assert CANARY not in printed
    assert caught.value.advice


@pytest.mark.parametrize(
    "text",
    [
        "",
        "deltasql://",
        "deltasql://sqlite",
        "deltasql://sqlite/",
        "deltasql://sqlite/dir/",
        "deltasql://sqlite/:memory:",
        "deltasql://sqlite/a%00b",
        "deltasql://duckdb/x.db",
        "deltasql://postgres/a/b/c/d",
        "deltasql://postgres/a//c",
        "deltasql://postgres/a?port=x",
        "deltasql://postgres/a?host",
        "deltasql://postgres/a?nonsense=1",
        "deltasql://postgres/a/b?schema=c",
        "deltasql://postgres/a/" + "x" * 64,
        "sqlite:///x.db",
        "metadata.db",
    ],
)
def test_anything_else_is_refused_with_a_hint(text):
    with pytest.raises(BadUriError) as caught:
        parse_uri(text)
    assert caught.value.advice


def test_unknown_parameter_is_named():
    with pytest.raises(BadUriError, match="sslmod is unknown"):
        parse_uri("deltasql://postgres/db?sslmod=require")
