"""Which columns of a Parquet file are the table's, and how they become the table's.

Fields are found by id or by physical name, whatever the file's schema was when it was written:
missing ones are null, narrower ones are widened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltasql.data.shape import Shape, bare_batch, reshape_columns
from deltasql.errors import CorruptDataError, DeltaSqlError
from deltasql.protocol.arrow_schema import FIELD_ID, to_arrow_schema, to_arrow_type
from deltasql.protocol.columns import (
    PHYSICAL_NAME,
    MappingMode,
    field_id,
    loosen_columns,
    physical_name,
)
from deltasql.protocol.schema import DataType, StructField, StructType


@dataclass(frozen=True, slots=True)
class FileColumns:
    """The columns of one file that a scan reads."""

    names: tuple[str, ...]
    file_schema: pa.Schema
    schema: StructType
    shape: Shape

    def reshape(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows under the table's names, in its types and order."""
        arrays = reshape_columns(batch, self.schema, self.shape)
        return _batch(arrays, self.schema)

    def nulls(self, rows: int) -> pa.RecordBatch:
        """Return rows of which the file tells nothing."""
        arrays = [pa.nulls(rows, self.shape.target(one.type)) for one in self.schema.fields]
        return _batch(arrays, self.schema) if arrays else bare_batch(rows)


def columns_of_file(file: pa.Schema, schema: StructType, mode: MappingMode) -> FileColumns:
    """Return where the table's columns are in a file of that schema."""
    by_id = mode == "id" and any(_id(one) is not None for one in file)
    find = _find_by_id if by_id else _finder_by_name(mode)
    fields = list(file)
    places = [find(fields, one) for one in schema.fields]
    names = tuple(fields[place].name for place in places if place is not None)
    shape = Shape(mode, False, find, _widen, _pass, _pass, _pass, _misfit)
    return FileColumns(names, file, schema, shape)


def _batch(arrays: list[Any], schema: StructType) -> pa.RecordBatch:
    # What a file lacks is null, whatever the table says of the column now.
    fields = [one.with_nullable(True) for one in to_arrow_schema(loosen_columns(schema))]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _id(one: pa.Field) -> int | None:
    text = (one.metadata or {}).get(FIELD_ID)
    return int(text) if text is not None else None


def _find_by_id(fields: list[pa.Field], field: StructField) -> int | None:
    wanted = field_id(field)
    if wanted is None:  # a column that no table has, as files of changes hold one
        name = field.metadata.get(PHYSICAL_NAME)
        return next((at for at, one in enumerate(fields) if one.name == name), None)
    return next((at for at, one in enumerate(fields) if _id(one) == wanted), None)


def _finder_by_name(mode: MappingMode) -> Any:
    def find(fields: list[pa.Field], field: StructField) -> int | None:
        name = physical_name(field, mode)
        exact = next((at for at, one in enumerate(fields) if one.name == name), None)
        if exact is not None or mode != "none":
            return exact
        folded = name.lower()
        return next((at for at, one in enumerate(fields) if one.name.lower() == folded), None)

    return find


def _widen(array: Any, kind: DataType, path: str) -> Any:
    target = to_arrow_type(kind)
    # Files may tell nanoseconds; Delta's timestamps end at microseconds.
    is_time = pa.types.is_timestamp(array.type) and pa.types.is_timestamp(target)
    try:
        return array.cast(target, safe=not is_time)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _misfit(array.type, kind, path) from error


def _misfit(found: Any, kind: DataType, path: str) -> DeltaSqlError:
    return CorruptDataError(
        f"A file has the type {found} for the column {path} of type {kind.name}.", column=path
    )


def _pass(*_: object) -> None:
    """Nothing to object to."""
