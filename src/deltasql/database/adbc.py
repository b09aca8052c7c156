"""Statements through ADBC, and temporary tables for what a statement compares with.

The DB-API module of ADBC imports pandas and Polars wherever they are installed; its handles below
do not, and are three times as fast for small statements.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import adbc_driver_manager as adbc
import msgspec
import pyarrow as pa

from deltasql.errors import CatalogError
from deltasql.forks import abandon

Error = adbc.Error
IntegrityError = adbc.IntegrityError
OperationalError = adbc.OperationalError
DataError = adbc.DataError

# A query with this single column gives its rows as JSON arrays; `rows` takes them apart.
ROW_JSON = "row_json"
TEMPORARY = {"adbc.ingest.temporary": "true"}
_BATCH_ROWS = "adbc.sqlite.query.batch_rows"
_FIRST_ROWS, _MORE = 1024, 64
_TEXT, _BYTES = pa.string(), pa.binary()
_ONE_TEXT = pa.schema([("text", _TEXT)])
_TEXT_AND_BYTES = pa.schema([("text", _TEXT), ("bytes", _BYTES)])

SQLITE_WORDS = {
    "table_key": "(select k.table_key from dl_tables k where k.table_id = :table_id)",
    "uuid": "text",
    "hash": "blob",
    "hash:": "unhex({})",
    "time:": "{}",
    "long_ago": "0",
    "bytewise": "",
    "on_commit_drop": "",
    "for_no_key_update": "",
}
POSTGRES_WORDS = {
    "table_key": "(select k.table_key from dl_tables k where k.table_id = cast(:table_id as uuid))",
    "uuid": "uuid",
    "hash": "uuid",
    "hash:": "cast(cast({} as text) as uuid)",
    "time:": "to_timestamp(cast({} as bigint) / 1000.0)",
    "long_ago": "to_timestamp(0)",
    "bytewise": 'collate "C"',
    "on_commit_drop": "on commit drop",
    "for_no_key_update": "for no key update",
}


class _Call:
    """A call of the driver; a class, because a generator would cost more than a small statement."""

    __slots__ = ("_connection",)

    def __init__(self, connection: AdbcConnection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.is_unfinished = True

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, Error):
            self._connection.is_unfinished = False


class AdbcConnection:
    """One connection; used by one thread at a time.

    `is_unfinished` stays true when something else than the driver's own error ended a call, such as
    Ctrl-C: then a statement may still be open on it, and the connection must not be used again.
    """

    def __init__(self, database: Any, *, guesses_types: bool = False) -> None:
        """Connect; a driver that `guesses_types` takes a column's type from its first rows."""
        self._database = database
        self._guesses_types = guesses_types
        self._raw = adbc.AdbcConnection(database)
        self._statements: dict[str, Any] = {}
        self.broken = False
        self.is_unfinished = False

    def is_idle(self) -> bool:
        """Tell whether the connection may be used again."""
        return not (self.broken or self.is_unfinished)

    def execute(self, text: str, values: bytes | None = None, blob: bytes | None = None) -> None:
        """Run a statement without a result; `values` is its first parameter, a text."""
        with _Call(self):
            statement = self._prepared(text)
            if values is not None:
                statement.bind(_bound(values, blob))
            statement.execute_update()

    def execute_once(self, text: str) -> None:
        """Run a statement without a result, and do not keep it prepared."""
        with _Call(self), self._made(text) as statement:
            statement.execute_update()

    def rows_once(self, text: str) -> list[tuple[Any, ...]]:
        """Run a query that is not kept prepared, and return all its rows."""
        with _Call(self), self._made(text) as statement:
            reader = self._query(statement, None, None)
            return _tuples(reader.schema.names, reader)

    @contextmanager
    def _made(self, text: str) -> Iterator[Any]:
        statement = self._prepare(text)
        try:
            yield statement
        finally:
            statement.close()

    def execute_each(self, text: str, values: Sequence[bytes], blobs: Sequence[bytes]) -> None:
        """Run a statement for each pair of a text and bytes."""
        with _Call(self):
            texts = pa.array([value.decode() for value in values], _TEXT)
            rows = [texts, pa.array(blobs, _BYTES)]
            statement = self._prepared(text)
            statement.bind(pa.RecordBatch.from_arrays(rows, schema=_TEXT_AND_BYTES))
            statement.execute_update()

    def rows(
        self, text: str, values: bytes | None = None, blob: bytes | None = None
    ) -> list[tuple[Any, ...]]:
        """Run a query and return all its rows."""
        with _Call(self):
            reader = self._query(self._prepared(text), values, blob)
            first = next(reader, None)
            if first is None:
                return []
            if self._guesses_types and _may_be_mistyped(first, _FIRST_ROWS):
                reader.close()
                return self._rows_in_one_batch(text, values, _FIRST_ROWS * _MORE)
            return _tuples(reader.schema.names, (first, *reader))

    def _rows_in_one_batch(
        self, text: str, values: bytes | None, limit: int
    ) -> list[tuple[Any, ...]]:
        """Run a query whose first rows do not show the types of all its columns.

        The driver fails at a value of another type than it has guessed, so it must see enough rows
        before it guesses; room for them is taken beforehand, so not more than there may be.
        """
        statement = adbc.AdbcStatement(self._raw)
        try:
            statement.set_options(**{_BATCH_ROWS: str(limit)})
            statement.set_sql_query(text)
            statement.prepare()
            reader = self._query(statement, values, None)
            first = next(reader)
            if not _may_be_mistyped(first, limit):
                return _tuples(reader.schema.names, (first, *reader))
            reader.close()
        finally:
            statement.close()
        return self._rows_in_one_batch(text, values, limit * _MORE)

    @staticmethod
    def _query(statement: Any, values: bytes | None, blob: bytes | None) -> pa.RecordBatchReader:
        if values is not None:
            statement.bind(_bound(values, blob))
        stream, _ = statement.execute_query()
        return pa.RecordBatchReader.from_stream(stream)

    def batches(
        self, text: str, values: bytes | None = None
    ) -> Generator[pa.RecordBatch, None, None]:
        """Run a query once and yield its rows as Arrow batches."""
        statement = adbc.AdbcStatement(self._raw)
        try:
            statement.set_sql_query(text)
            if values is not None:
                statement.prepare()
                statement.bind(_bound(values, None))
            stream, _ = statement.execute_query()
            reader = pa.RecordBatchReader.from_stream(stream)
            try:
                yield from reader
            finally:
                reader.close()
        except GeneratorExit:
            raise
        except BaseException:
            self.broken = True
            raise
        finally:
            statement.close()

    def ingest(self, name: str, rows: pa.Table, *, into: Mapping[str, str] = TEMPORARY) -> int:
        """Append rows to a table and return how many the driver took."""
        statement = adbc.AdbcStatement(self._raw)
        try:
            statement.set_options(
                **{
                    "adbc.ingest.target_table": name,
                    "adbc.ingest.mode": "adbc.ingest.mode.append",
                    **into,
                }
            )
            statement.bind_stream(rows.to_reader())
            return int(statement.execute_update())
        finally:
            statement.close()

    def close(self) -> bool:
        """Close the connection and everything that was prepared on it; False if it cannot be."""
        statements, self._statements = self._statements, {}
        for statement in statements.values():
            statement.close()
        try:
            self._raw.close()
            self._database.close()
        except Error:
            return False
        except RuntimeError:
            # An interrupt came just when a statement was made: nobody has it to close it. What was
            # open on the connection is rolled back by its owner; the handle stays until the end.
            abandon(self._raw)
            abandon(self._database)
            return False
        return True

    def _prepared(self, text: str) -> Any:
        statement = self._statements.get(text)
        if statement is None:
            statement = self._statements[text] = self._prepare(text)
        return statement

    def _prepare(self, text: str) -> Any:
        statement = adbc.AdbcStatement(self._raw)
        try:
            statement.set_sql_query(text)
            statement.prepare()
        except BaseException:
            statement.close()
            raise
        return statement


def _may_be_mistyped(batch: pa.RecordBatch, limit: int) -> bool:
    """Tell whether a column's type was guessed from nulls only, and more rows may follow."""
    return batch.num_rows >= limit and any(
        column.null_count == len(column) for column in batch.columns
    )


def _tuples(names: list[str], batches: Iterable[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for batch in batches:
        found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    if names == [ROW_JSON]:
        return [tuple(msgspec.json.decode(text)) for (text,) in found]
    return found


def _bound(values: bytes, blob: bytes | None) -> pa.RecordBatch:
    """Return the parameters as one row; built from buffers, without a detour over Python lists."""
    text = _one(_TEXT, values)
    if blob is None:
        return pa.RecordBatch.from_arrays([text], schema=_ONE_TEXT)
    return pa.RecordBatch.from_arrays([text, _one(_BYTES, blob)], schema=_TEXT_AND_BYTES)


def _one(kind: pa.DataType, value: bytes) -> pa.Array:
    offsets = pa.py_buffer(struct.pack("<ii", 0, len(value)))
    return pa.Array.from_buffers(kind, 1, [None, offsets, pa.py_buffer(value)])


def without_nulls(rows: pa.Table) -> pa.Table:
    """Leave out the columns that say nothing: every value costs the driver, a null too."""
    kept = [name for name in rows.column_names if rows[name].null_count < rows.num_rows]
    return rows.select(kept)


def require_all(name: str, taken: int, given: int) -> None:
    """Make sure that a bulk load lost nothing on its way.

    Raises:
        CatalogError: it did.
    """
    if taken != given:
        raise CatalogError(f"{name}: the database took {taken} of {given} rows.")
