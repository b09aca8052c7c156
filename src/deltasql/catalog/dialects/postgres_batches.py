"""PostgreSQL, very many rows out: a read of one state on a connection that gives Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any

import pyarrow as pa

from deltasql.catalog.dialects.adbc import AdbcConnection, Error
from deltasql.catalog.dialects.postgres_bulk import with_literals
from deltasql.catalog.queries import Queries

Mapped = Callable[[], AbstractContextManager[None]]


class PostgresBatchRead:
    """An open read of one state through ADBC; values travel as literals."""

    def __init__(self, connection: AdbcConnection, queries: Queries, mapped: Mapped) -> None:
        self._connection = connection
        self._queries = queries
        self._mapped = mapped

    def rows(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
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
