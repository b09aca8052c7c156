"""The rows of a table's files as Arrow batches, exactly those that a filter keeps.

Files are read by a few threads and given back in their order; at any time only a few batches per
thread are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from deltasql.data.file_reader import FileReader, FileToRead, ReadPlan
from deltasql.data.read_ahead import in_order
from deltasql.errors import CorruptDataError, MalformedActionError, SchemaError
from deltasql.metastore.snapshot.file_list import vector_of
from deltasql.protocol.predicate import Predicate, columns_of, may_match
from deltasql.protocol.schema.arrow import to_arrow_schema
from deltasql.protocol.schema.columns import MappingMode, find_field, loosen_columns, mapping_mode
from deltasql.protocol.schema.types import StructField, StructType
from deltasql.storage.port import ObjectStore

OpenRoot: TypeAlias = Callable[[str], ObjectStore]
_COLUMNS = ("path", "size", "partition_values", "deletion_vector", "among")


@dataclass(frozen=True, slots=True)
class ScanSpec:
    """What a scan must know of its table.

    `allowed_roots` and `open_root` serve tables whose files lie elsewhere (shallow clones); `zone`
    is that of partition values that are times and name none.
    """

    schema: StructType
    partition_columns: Sequence[str] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    allowed_roots: Sequence[str] = ()
    open_root: OpenRoot | None = None
    threads: int = 4
    batch_rows: int = 65_536
    zone: tzinfo = UTC

    @property
    def mode(self) -> MappingMode:
        """The table's column mapping mode."""
        return mapping_mode(self.configuration)


def scan_files(
    files: pa.Table,
    spec: ScanSpec,
    store: ObjectStore,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the files, in order, with the chosen columns under their logical names.

    `files` has the columns path, size, partition_values and deletion_vector (JSON texts, the last
    may be null). Deleted rows and rows for which the filter is not true are left out; where there
    is a column `among`, so are rows that the vector in it does not name.

    Raises:
        SchemaError: a chosen column is not in the table.
        CorruptDataError: a file or a deletion vector is damaged or missing.
        UnsafePathError: a path leads outside the table.
    """
    plan = plan_scan(spec, columns, predicate)
    reader = FileReader(plan, store, spec.allowed_roots, spec.open_root)
    wanted = (
        one
        for one in _files(files)
        if predicate is None or may_match(predicate, None, one.partition_values)
    )
    tasks = (_bind(reader, one) for one in wanted)
    yield from in_order(tasks, threads=max(1, spec.threads))


def output_schema(spec: ScanSpec, columns: Sequence[str] | None = None) -> pa.Schema:
    """Return the schema of the batches that a scan of these columns yields."""
    return to_arrow_schema(loosen_columns(StructType(tuple(_chosen(spec.schema, columns)))))


def plan_scan(
    spec: ScanSpec, columns: Sequence[str] | None, predicate: Predicate | None
) -> ReadPlan:
    """Return what is read of every file, and what is given back."""
    chosen = _chosen(spec.schema, columns)
    needed = {one.path[0] for one in columns_of(predicate)} if predicate is not None else set()
    names = needed | {one.name for one in chosen}
    partitions = set(spec.partition_columns)
    read = [one for one in spec.schema.fields if one.name in names]
    return ReadPlan(
        StructType(tuple(one for one in read if one.name not in partitions)),
        StructType(tuple(one for one in read if one.name in partitions)),
        tuple(one.name for one in chosen),
        predicate,
        spec.mode,
        spec.batch_rows,
        spec.zone,
    )


def _chosen(schema: StructType, columns: Sequence[str] | None) -> list[StructField]:
    if columns is None:
        return list(schema.fields)
    found = [(name, find_field(schema, name)) for name in columns]
    missing = [name for name, one in found if one is None]
    if missing:
        raise SchemaError(f"The table has no column {', '.join(missing)}.", columns=missing)
    return [one for _, one in found if one is not None]


def _files(files: pa.Table) -> Iterator[FileToRead]:
    columns = [name for name in _COLUMNS if name in files.column_names]
    for batch in files.select(columns).to_batches():
        for row in batch.to_pylist():
            yield _file(row)


def _file(row: dict[str, Any]) -> FileToRead:
    try:
        return FileToRead(
            row["path"],
            row["size"],
            msgspec.json.decode(row["partition_values"] or "{}", type=dict[str, str | None]),
            vector_of(row["deletion_vector"]),
            vector_of(row.get("among")),
        )
    except (msgspec.MsgspecError, MalformedActionError) as error:
        raise CorruptDataError(f"The entry of the file {row['path']} is malformed.") from error


def _bind(reader: FileReader, file: FileToRead) -> Callable[[], Iterator[pa.RecordBatch]]:
    return lambda: reader.read(file)
