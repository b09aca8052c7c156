"""Arrays that we write as text arrive in PostgreSQL as they were."""

import math
from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import deltasql
from builders import a_table, ids, rows
from deltasql.database.adbc import Error
from deltasql.database.postgres_arrow import ArrayDumper
from deltasql.errors import DeltaSqlError
from deltasql.testing import inspect
from deltasql.testing.invariants import check_invariants

pytestmark = pytest.mark.req("R9")

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=20)
ODD_TEXTS = ["", "NULL", "null", "{}", '"', "\\", "a,b", " a ", "\n", "é𝄞"]
ARRAYS = {
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "double precision": st.floats(),
    "boolean": st.booleans(),
    "text": TEXTS
    | st.sampled_from(["", "NULL", "null", "{}", '"', "\\", "a,b", " a ", "\n", "é𝄞"]),
}


@pytest.fixture(scope="module")
def connection(postgres_server) -> Iterator[psycopg.Connection]:
    database = postgres_server.create_database_name()
    with psycopg.connect(postgres_server.dsn(database), autocommit=True) as opened:
        opened.adapters.register_dumper(list, ArrayDumper)
        yield opened


def sent_and_back(connection, values: list, kind: str, mark: str = "t") -> list:
    return connection.execute(f"select %{mark}::{kind}[]", (values,)).fetchone()[0]


@pytest.mark.parametrize("kind", ARRAYS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_values_come_back_as_they_were(connection, kind, data):
    values = data.draw(st.lists(st.none() | ARRAYS[kind], max_size=8))
    returned = sent_and_back(connection, values, kind)
    assert [repr(value) for value in returned] == [repr(value) for value in values]


def test_bytes_go_as_binary_arrays(connection):
    values = [b"", b'\0\\"{},NULL', bytes(range(256)), None]
    assert sent_and_back(connection, values, "bytea", "b") == values


def test_text_with_a_zero_byte_is_refused_and_not_cut(connection):
    with pytest.raises(psycopg.DataError, match="NUL"):
        sent_and_back(connection, ["fine", "a\0b"], "text")
    assert sent_and_back(connection, [1], "bigint") == [1]


def test_infinities_and_nan_keep_their_meaning(connection):
    low, high, neither = sent_and_back(
        connection, [-math.inf, math.inf, math.nan], "double precision"
    )
    assert (low, high) == (-math.inf, math.inf)
    assert math.isnan(neither)


@pytest.mark.parametrize("value", [b"bytes", 1j, object()], ids=["bytes", "complex", "object"])
def test_a_value_of_another_type_is_refused(connection, value):
    with pytest.raises(TypeError, match=type(value).__name__):
        sent_and_back(connection, [value], "text")


@pytest.mark.parametrize("where", ["role", "uri", "environment", "database"])
def test_texts_are_utf8_whatever_encoding_others_have_chosen(
    postgres_server, tmp_path, monkeypatch, where
):
    """The bytes of a commit and SQL's rows of it must tell the same."""
    name = postgres_server.create_database_name()
    uri = postgres_server.uri(name)
    if where == "uri":
        uri += "&client_encoding=LATIN1"
    elif where == "environment":
        monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    else:
        target = "role postgres in" if where == "role" else ""
        statement = f"alter {target} database {name} set client_encoding to 'LATIN1'"
        with psycopg.connect(postgres_server.dsn(), autocommit=True) as opened:
            opened.execute(statement)
    with deltasql.connect(uri) as catalog:
        catalog.create_if_missing()
        table = a_table(catalog, tmp_path)
        table.append(rows(1, day="é"))
        table.overwrite(rows(2, day="ü€"))
        assert ids(table) == [2]
        assert table.scan(where="day = 'ü€'").to_arrow().num_rows == 1
        assert catalog.mirror.verify("orders") == []
        check_invariants(catalog, "orders")
        table.delete("day = 'ü€'")
        assert ids(table) == []


def test_a_bulk_transaction_whose_error_nobody_saw_is_not_committed(postgres_server):
    """PostgreSQL answers COMMIT of a failed transaction with a rollback and no error."""
    uri = postgres_server.uri(postgres_server.create_database_name())
    with deltasql.connect(uri) as catalog:
        catalog.create_if_missing()
        database = inspect(catalog).database
        with pytest.raises(DeltaSqlError), database.bulk() as tx, suppress(Error):
            tx._connection.execute_once("select 1 / 0")
        with database.bulk() as tx:
            assert tx.fetch_all("catalog_row")
