"""Whatever holds Arrow data, as a stream of batches."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

import pyarrow as pa

from deltasql.errors import BadArgumentError, DeltaSqlError, SchemaError
from deltasql.protocol.arrow_schema import to_arrow_schema, to_arrow_type
from deltasql.protocol.columns import find_field, loosen_columns
from deltasql.protocol.schema import Decimal, StructType

_NOT_CONVERTED = (pa.ArrowException, OverflowError, TypeError, ValueError)


def to_reader(data: Any, schema: StructType) -> pa.RecordBatchReader:
    """Return a stream over pyarrow, Polars, DuckDB, pandas, or anything with the Arrow PyCapsule.

    A list of dicts gets a column for every key of any row; `schema` is that of the table.

    Raises:
        BadArgumentError: the value holds no rows that Arrow knows of, or was read before.
        SchemaError: rows or columns have no Arrow type.
    """
    if isinstance(data, pa.RecordBatchReader):
        _consumed.take(data)
        return data
    if isinstance(data, pa.Table):
        return data.to_reader()
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if hasattr(data, "__arrow_c_stream__"):
        return _from_stream(data)
    if isinstance(data, list) and all(isinstance(row, dict) for row in data):
        return _from_rows(data, schema).to_reader()
    raise BadArgumentError(
        f"A {type(data).__name__} cannot be written.",
        hint="Give a pyarrow Table, a Polars, pandas or DuckDB frame, or a list of dicts.",
    )


class _ConsumedReaders:
    """The readers that a write has read: a second write would find no rows in them."""

    def __init__(self) -> None:
        self._readers: WeakSet[pa.RecordBatchReader] = WeakSet()
        self._lock = threading.Lock()

    def take(self, reader: pa.RecordBatchReader) -> None:
        with self._lock:
            if reader in self._readers:
                raise BadArgumentError(
                    "The RecordBatchReader was read by an earlier write; its rows are gone.",
                    hint="Make a new reader for each attempt, or give a pyarrow Table.",
                )
            self._readers.add(reader)


_consumed = _ConsumedReaders()


def _from_stream(data: Any) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(data)
    except DeltaSqlError:  # of a scan of ours
        raise
    except (*_NOT_CONVERTED, OSError) as error:
        raise SchemaError(f"The {type(data).__name__} cannot be read as Arrow: {error}.") from error


def _from_rows(rows: Sequence[dict[str, Any]], schema: StructType) -> pa.Table:
    if not rows:
        return to_arrow_schema(loosen_columns(schema)).empty_table()
    names = list(dict.fromkeys(name for row in rows for name in row))
    other = next((name for name in names if not isinstance(name, str)), None)
    if other is not None:
        raise BadArgumentError(f"The key {other!r} of a row is not the name of a column.")
    columns = [_column(name, [row.get(name) for row in rows], schema) for name in names]
    # a batch of no columns would lose its rows
    return pa.table(columns, names) if names else pa.table({"": pa.nulls(len(rows))}).select([])


def _column(name: str, values: Sequence[Any], schema: StructType) -> pa.Array:
    """Return values as what they are; integers beyond 64 bits fit a decimal column only."""
    try:
        return pa.array(values)
    except _NOT_CONVERTED as error:
        field = find_field(schema, name)
        if field is None or not isinstance(field.type, Decimal):
            raise _no_type(name, error) from error
    try:
        return pa.array(values, to_arrow_type(field.type))
    except _NOT_CONVERTED as error:
        raise _no_type(name, error) from error


def _no_type(name: str, error: Exception) -> SchemaError:
    return SchemaError(f"The values of column {name} have no common type: {error}.", column=name)
