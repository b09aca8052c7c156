"""Rows of one data file under the table's schema: column mapping, row groups, deletion vectors.

Which columns of a Parquet file are the table's, and how they become the table's. Fields are found
by id or by physical name, whatever the file's schema was when it was written: missing ones are
null, narrower ones are widened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from deltasql.data.casting import Shape, bare_batch, reshape_columns
from deltasql.data.deletion_vectors import Vector, read_vector
from deltasql.data.parquet_file import summarize_group
from deltasql.data.partitions import partition_scalar
from deltasql.errors import CorruptDataError, DeltaSqlError, ObjectNotFoundError, UnsafePathError
from deltasql.protocol.actions import DeletionVector
from deltasql.protocol.predicate import Column, Predicate, to_arrow
from deltasql.protocol.predicate.prune import Facts, can_be_true, partition_facts
from deltasql.protocol.schema.arrow import FIELD_ID, to_arrow_schema, to_arrow_type
from deltasql.protocol.schema.columns import (
    PHYSICAL_NAME,
    MappingMode,
    field_id,
    loosen_columns,
    physical_name,
)
from deltasql.protocol.schema.types import DataType, StructField, StructType
from deltasql.protocol.values import FLOATS
from deltasql.storage.paths import AbsoluteObject, resolve_path
from deltasql.storage.port import ObjectStore


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


def may_group_match(
    predicate: Predicate,
    group: Any,
    columns: FileColumns,
    partition_values: Mapping[str, str | None],
) -> bool:
    """Tell whether a row group may hold a row that the filter keeps; false means surely none."""

    def known(column: Column) -> Facts:
        name = column.physical[0]
        if len(column.physical) == 1 and name in partition_values:
            return partition_facts(column, partition_values[name])
        return _facts(column, group, columns)

    return group.num_rows > 0 and can_be_true(predicate, known)


def _facts(column: Column, group: Any, columns: FileColumns) -> Facts:
    is_float = column.type.name in FLOATS
    place = _place(column, columns)
    if place is None:
        return Facts(may_be_nan=is_float)
    summary = summarize_group(group, column, range(place, place + 1))
    return Facts(
        summary.low,
        summary.high,
        summary.nulls != 0,
        summary.nulls is None or summary.nulls != group.num_rows,
        is_float,
    )


def _place(column: Column, columns: FileColumns) -> int | None:
    """Return the Parquet column of a plain column that has the table's own type in this file."""
    if len(column.path) != 1:
        return None
    field = next((one for one in columns.schema.fields if one.name == column.path[0]), None)
    fields = list(columns.file_schema)
    at = None if field is None else columns.shape.find(fields, field)
    if at is None or fields[at].type != to_arrow_type(column.type):
        return None
    if pa.types.is_nested(fields[at].type):
        return None
    return sum(_width(one.type) for one in fields[:at])


def _width(kind: pa.DataType) -> int:
    """Return how many Parquet columns an Arrow type takes up."""
    if pa.types.is_nested(kind):
        return sum(_width(kind.field(position).type) for position in range(kind.num_fields))
    return 1


@dataclass(frozen=True, slots=True)
class FileToRead:
    """A file of a snapshot; with `among`, only the rows that this vector names are wanted."""

    path: str
    size: int
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    deletion_vector: DeletionVector | None = None
    among: DeletionVector | None = None


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What is read of every file: its columns, those of its partition, and what is given back."""

    data: StructType
    partitions: StructType
    output: tuple[str, ...]
    predicate: Predicate | None
    mode: MappingMode
    batch_rows: int
    zone: tzinfo = UTC


class FileReader:
    """Reads the files of one scan; safe to use from many threads."""

    def __init__(
        self,
        plan: ReadPlan,
        store: ObjectStore,
        allowed_roots: Sequence[str] = (),
        open_root: Callable[[str], ObjectStore] | None = None,
    ) -> None:
        self._plan = plan
        self._store = store
        self._roots = allowed_roots
        self._open_root = open_root
        self._filter = None if plan.predicate is None else to_arrow(plan.predicate)
        read = StructType((*plan.data.fields, *plan.partitions.fields))
        self._schema = to_arrow_schema(loosen_columns(read))

    def read(self, file: FileToRead) -> Iterator[pa.RecordBatch]:
        """Yield the file's rows that are not deleted and that the filter keeps."""
        partition = [self._partition(one, file) for one in self._plan.partitions.fields]
        deleted, among = self._vector(file.deletion_vector), self._vector(file.among)
        with _reading(file.path), self._open(file.path) as source:
            parquet = pq.ParquetFile(source, coerce_int96_timestamp_unit="us", pre_buffer=True)
            for start, rows in self._rows(parquet, file):
                plain = deleted is None and among is None
                kept = rows if plain else _kept(rows, start, deleted, among)
                if kept.num_rows:
                    yield from self._finish(kept, partition)

    def _rows(self, parquet: Any, file: FileToRead) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches in the table's shape with the position of their first row."""
        plan, footer = self._plan, parquet.metadata
        columns = columns_of_file(parquet.schema_arrow, plan.data, plan.mode)
        start = 0
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            if self._may_match(group, columns, file):
                yield from self._group(parquet, number, start, columns)
            start += group.num_rows

    def _may_match(self, group: Any, columns: FileColumns, file: FileToRead) -> bool:
        predicate = self._plan.predicate
        return predicate is None or may_group_match(
            predicate, group, columns, file.partition_values
        )

    def _group(
        self, parquet: Any, number: int, start: int, columns: FileColumns
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        size = self._plan.batch_rows
        if not columns.names:  # nothing of the file is needed but the number of its rows
            end = start + parquet.metadata.row_group(number).num_rows
            for at in range(start, end, size):
                yield at, columns.nulls(min(size, end - at))
            return
        for batch in parquet.iter_batches(
            batch_size=size, row_groups=[number], columns=list(columns.names), use_threads=False
        ):
            yield start, columns.reshape(batch)
            start += batch.num_rows

    def _finish(self, rows: pa.RecordBatch, partition: list[Any]) -> Iterator[pa.RecordBatch]:
        names = list(self._plan.output)
        if self._filter is None and not names:
            yield bare_batch(rows.num_rows)
            return
        constants = [pa.repeat(value, rows.num_rows) for value in partition]
        full = pa.RecordBatch.from_arrays([*rows.columns, *constants], schema=self._schema)
        if self._filter is None:
            yield full.select(names)
            return
        for batch in pa.Table.from_batches([full]).filter(self._filter).to_batches():
            if batch.num_rows:
                yield batch.select(names) if names else bare_batch(batch.num_rows)

    def _partition(self, one: StructField, file: FileToRead) -> Any:
        text = file.partition_values.get(physical_name(one, self._plan.mode))
        value = partition_scalar(text, one.type, to_arrow_type(one.type), self._plan.zone)
        if value is None:
            raise CorruptDataError(
                f"The file {file.path} has the value {text!r} for the partition column {one.name}, "
                f"which is no {one.type.name}.",
                path=file.path,
            )
        return value

    def _locate(self, path: str) -> tuple[ObjectStore, str]:
        place = resolve_path(path, allowed_roots=self._roots)
        if not isinstance(place, AbsoluteObject):
            return self._store, place.key
        if self._open_root is None:
            raise UnsafePathError(f"The path {path!r} leads outside the table.", path=path)
        return self._open_root(place.root), place.key

    def _vector(self, vector: DeletionVector | None) -> Vector | None:
        return None if vector is None else read_vector(vector, self._read_range)

    def _read_range(self, path: str, start: int, length: int) -> bytes:
        store, key = self._locate(path)
        return store.get_range(key, start, length)

    @contextmanager
    def _open(self, path: str) -> Iterator[BinaryIO]:
        store, key = self._locate(path)
        with store.open_input(key) as source:
            yield source


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Turn what Arrow says of a damaged file, and a missing one, into our own error."""
    try:
        yield
    except ObjectNotFoundError as error:
        raise CorruptDataError(f"The file {path} is missing.", path=path) from error
    except (pa.ArrowException, OSError, EOFError) as error:
        raise CorruptDataError(f"The file {path} cannot be read as Parquet.", path=path) from error


def _kept(
    rows: pa.RecordBatch, start: int, deleted: Vector | None, among: Vector | None
) -> pa.RecordBatch:
    """Return the rows whose positions are not deleted, and are among those that are wanted."""
    span = BitMap64(range(start, start + rows.num_rows))
    wanted = span if among is None else span & among
    if deleted is not None:
        wanted = wanted - deleted
    if len(wanted) == rows.num_rows:
        return rows
    kept = pa.array(wanted.to_array(), pa.uint64())
    return rows.take(pa.compute.subtract(kept, pa.scalar(start, pa.uint64())))
