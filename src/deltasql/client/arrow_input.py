"""Whatever holds Arrow data, as a stream of batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from deltasql.errors import BadArgumentError, SchemaError


def to_reader(data: Any) -> pa.RecordBatchReader:
    """Return a stream over pyarrow, Polars, DuckDB, pandas, or anything with the Arrow PyCapsule.

    Raises:
        BadArgumentError: the value holds no rows that Arrow knows of.
    """
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.Table):
        return data.to_reader()
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if isinstance(data, list) and all(isinstance(row, dict) for row in data):
        return _from_rows(data)
    raise BadArgumentError(
        f"A {type(data).__name__} cannot be written.",
        hint="Give a pyarrow Table, a Polars, pandas or DuckDB frame, or a list of dicts.",
    )


def _from_rows(rows: list[dict[str, Any]]) -> pa.RecordBatchReader:
    try:
        return pa.Table.from_pylist(rows).to_reader()
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaError(f"The rows have no common type: {error}.") from error
