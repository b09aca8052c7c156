"""PostgreSQL, very many rows in and out as Arrow; lists as PostgreSQL's own text.

Lists as PostgreSQL reads them in text: `{1,2,NULL}`. The driver's own dumper looks at every value
to find the narrowest type of its array. That takes longer than all else that a commit does in
Python, and a statement is planned anew for each combination of types that occurs. Here the
statement says the type, by a cast behind the parameter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import Any
from uuid import UUID

import pyarrow as pa
from psycopg import DataError, sql
from psycopg.adapt import Dumper
from psycopg.pq import Format

from deltasql.database.adbc import AdbcConnection, Error, require_all, without_nulls
from deltasql.database.named_queries import Queries
from deltasql.errors import CommitUnknownError

_PLACE = re.compile(r"%\((\w+)\)[stb]")

Mapped = Callable[[], AbstractContextManager[None]]


class ArrayDumper(Dumper):
    """Writes a list of numbers, truth values or texts; bytes go as the driver's binary arrays."""

    format = Format.TEXT
    oid = 0  # the statement says it

    def dump(self, obj: list[Any]) -> bytes:
        """Return the array as text."""
        text = "{" + ",".join(map(_element, obj)) + "}"
        if "\0" in text:  # the driver would end the text there
            raise DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
        return text.encode()  # our connections speak UTF-8


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, int):
        return int.__repr__(value)  # of a truth value 0 or 1
    if isinstance(value, float):
        return float.__repr__(value)
    raise TypeError(f"An array of a statement cannot hold a value of type {type(value).__name__}.")


@contextmanager
def bulk_transaction(
    connection: AdbcConnection, queries: Queries, schema: str
) -> Iterator[PostgresBulkTransaction]:
    """Open a transaction; committed on a clean exit, rolled back otherwise.

    After any other end the connection must not be used again.

    Raises:
        CommitUnknownError: COMMIT failed.
    """
    connection.broken = True
    connection.execute_once("begin isolation level read committed")
    try:
        yield PostgresBulkTransaction(connection, queries, schema)
    except BaseException:
        with suppress(Error):
            connection.execute_once("rollback")
        raise
    # COMMIT of a transaction that an error has ended is a rollback without an error
    connection.execute_once("savepoint at_end")
    try:
        connection.execute_once("commit")
    except Error as error:
        raise CommitUnknownError(f"COMMIT failed: {error}.") from error
    connection.broken = False


class PostgresBulkTransaction:
    """An open transaction; values travel as literals, rows as Arrow.

    No statement is kept prepared: its text has the values in it.
    """

    def __init__(self, connection: AdbcConnection, queries: Queries, schema: str) -> None:
        self._connection = connection
        self._queries = queries
        self._schema = schema

    def fetch_all(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """Run a query."""
        return self._connection.rows_once(self._text(name, params))

    def execute(self, name: str, /, **params: Any) -> None:
        """Run a statement."""
        self._connection.execute_once(self._text(name, params))

    def stage(self, create: str, rows: pa.Table) -> None:
        """Make a temporary table and copy the rows into it."""
        self._connection.execute_once(self._queries.get(create).text)
        name = create.removeprefix("create_")
        if rows.num_rows:
            require_all(name, self._connection.ingest(name, rows), rows.num_rows)
            # the planner needs the number of rows only, and the texts are long
            self._connection.execute_once(f"analyze {name} ({rows.column_names[0]})")

    def insert(self, name: str, rows: pa.Table, *, table_id: str | None = None) -> None:
        """Copy rows into a table of the catalog."""
        kept = without_nulls(rows)
        if table_id is not None:
            own = pa.scalar(UUID(table_id).bytes, pa.binary(16))
            kept = kept.append_column("table_id", pa.repeat(own, rows.num_rows))
        into = {"adbc.ingest.target_db_schema": self._schema}
        require_all(name, self._connection.ingest(name, kept, into=into), rows.num_rows)

    def _text(self, name: str, params: dict[str, Any]) -> str:
        return with_literals(self._queries.get(name).text, params)


def with_literals(text: str, params: dict[str, Any]) -> str:
    """Return a statement with its values quoted into it: ADBC streams only those as COPY."""
    return _PLACE.sub(lambda place: sql.Literal(params[place[1]]).as_string(None), text)


class PostgresBatchRead:
    """An open read of one state through ADBC; values travel as literals."""

    def __init__(self, connection: AdbcConnection, queries: Queries, mapped: Mapped) -> None:
        self._connection = connection
        self._queries = queries
        self._mapped = mapped

    def fetch_all(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """Run a query, which is not kept prepared: its text has the values in it."""
        text = with_literals(self._queries.get(name).text, params)
        return [
            row
            for batch in stream(self._connection, text, self._mapped)
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        ]

    def batches(
        self, text: str, params: dict[str, Any], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Run a query text and yield its rows in batches."""
        statement = with_literals(self._queries.compile(text).text, params)
        for batch in stream(self._connection, statement, self._mapped):
            yield batch.cast(schema) if batch.schema != schema else batch


@contextmanager
def reading(connection: AdbcConnection, mapped: Mapped) -> Iterator[None]:
    """Keep the connection in one state; one that cannot leave it is not used again."""
    try:
        with mapped():
            connection.execute("begin isolation level repeatable read read only")
        yield
    finally:
        try:
            connection.execute("rollback")
        except Error:
            connection.broken = True


def stream(connection: AdbcConnection, statement: str, mapped: Mapped) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a statement, the driver's errors as ours."""
    with closing(connection.batches(statement)) as batches:
        while True:
            with mapped():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch
