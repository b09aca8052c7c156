"""One Parquet file as the table sees it: its own names and types, deleted rows gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from deltasql.data.deletion_vectors import Vector, read_vector
from deltasql.data.file_columns import FileColumns, columns_of_file
from deltasql.data.partitions import partition_scalar
from deltasql.data.row_groups import may_group_match
from deltasql.data.shape import bare_batch
from deltasql.errors import CorruptDataError, ObjectNotFoundError, UnsafePathError
from deltasql.protocol.actions import DeletionVector
from deltasql.protocol.arrow_schema import to_arrow_schema, to_arrow_type
from deltasql.protocol.columns import MappingMode, loosen_columns, physical_name
from deltasql.protocol.predicate import Predicate, to_arrow
from deltasql.protocol.schema import StructField, StructType
from deltasql.storage.paths import AbsoluteObject, resolve_path
from deltasql.storage.port import ObjectStore


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
