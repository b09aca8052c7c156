"""PostgreSQL, very many rows: a transaction on a connection that takes Arrow as COPY."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID

import pyarrow as pa
from psycopg import sql

from deltasql.catalog.dialects.adbc import AdbcConnection, Error
from deltasql.catalog.dialects.staging import require_all, without_nulls
from deltasql.catalog.queries import Queries
from deltasql.errors import CommitUnknownError

_PLACE = re.compile(r"%\((\w+)\)[stb]")


@contextmanager
def bulk_transaction(
    connection: AdbcConnection, queries: Queries, schema: str
) -> Iterator[PostgresBulkWork]:
    """Open a transaction; committed on a clean exit, rolled back otherwise.

    After any other end the connection must not be used again.

    Raises:
        CommitUnknownError: COMMIT failed.
    """
    connection.broken = True
    connection.execute_once("begin isolation level read committed")
    try:
        yield PostgresBulkWork(connection, queries, schema)
    except BaseException:
        with suppress(Error):
            connection.execute_once("rollback")
        raise
    try:
        connection.execute_once("commit")
    except Error as error:
        raise CommitUnknownError(f"COMMIT failed: {error}.") from error
    connection.broken = False


class PostgresBulkWork:
    """An open transaction; values travel as literals, rows as Arrow.

    No statement is kept prepared: its text has the values in it.
    """

    def __init__(self, connection: AdbcConnection, queries: Queries, schema: str) -> None:
        self._connection = connection
        self._queries = queries
        self._schema = schema

    def rows(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """Run a query."""
        return self._connection.rows_once(self._text(name, params))

    def run(self, name: str, /, **params: Any) -> None:
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
