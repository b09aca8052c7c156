"""Arrow batches to Parquet files and the adds that tell of them, in bounded memory.

Files get names that nobody else uses and appear whole or not at all; what a failed write has
finished is deleted again. Nothing here commits: a file counts once its add is committed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, tzinfo

import pyarrow as pa

from deltasql.data.casting import check_input, conform, to_physical
from deltasql.data.constraints import (
    RowCheck,
    enforce,
    enforce_lengths,
    filled,
    missing_defaults,
    refuse_unwritable,
    row_checks,
)
from deltasql.data.parquet_file import FileLayout, OpenFile, layout_of
from deltasql.data.partitions import PartitionKey, directory, partition_fields, split
from deltasql.errors import ConfigError, DeltaSqlError, SchemaError
from deltasql.protocol.actions import Add
from deltasql.protocol.schema.columns import MappingMode, mapping_mode
from deltasql.protocol.schema.types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    text_limits,
)
from deltasql.storage.paths import encode_path
from deltasql.storage.port import ObjectStore

TARGET_FILE_SIZE = "delta.targetFileSize"
DEFAULT_FILE_SIZE = 128 * 1024 * 1024
MAX_ROW_GROUP_BYTES = 64 * 1024 * 1024
MAX_BUFFERED_BYTES = 256 * 1024 * 1024
MAX_OPEN_FILES = 64

_SIZE = re.compile(r"\s*(\d+)\s*([kmgt]?)b?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """What a write must know of its table; `roll` gives a new unique id at each call.

    `zone` is that of times in constraints that name none.
    """

    schema: StructType
    roll: Callable[[], str]
    now_ms: int
    partition_columns: Sequence[str] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    target_file_size: int | None = None
    max_records_per_file: int | None = None
    compression: str = "snappy"
    data_change: bool = True
    zone: tzinfo = UTC

    @property
    def mode(self) -> MappingMode:
        """The table's column mapping mode."""
        return mapping_mode(self.configuration)

    @property
    def file_size(self) -> int:
        """At which size a file is closed and the next one begun."""
        if self.target_file_size is not None:
            return self.target_file_size
        return parse_size(self.configuration.get(TARGET_FILE_SIZE, str(DEFAULT_FILE_SIZE)))


def parse_size(text: str) -> int:
    """Return a number of bytes such as 104857600, 100mb or 1 GB.

    Raises:
        ConfigError: the text is no size.
    """
    found = _SIZE.fullmatch(text)
    if found is None or int(found[1]) == 0:
        raise ConfigError(f"The table property {TARGET_FILE_SIZE} is {text!r}, which is no size.")
    return int(found[1]) << 10 * " kmgt".index(found[2].lower() or " ")


def write_files(batches: pa.RecordBatchReader, spec: WriteSpec, store: ObjectStore) -> list[Add]:
    """Write the rows as new files of the table and return their adds; no rows, no files.

    Raises:
        SchemaError: the rows do not fit the table.
        ConstraintViolationError: a row breaks a constraint.
        UnsupportedFeatureError: the table needs what this writer cannot do.
    """
    check_input(batches.schema)
    names = batches.schema.names
    defaults = missing_defaults(spec.schema, names)
    refuse_unwritable(spec.schema, [*names, *defaults])
    writer = _TableWriter(spec, store, row_checks(spec.schema, spec.configuration, spec.zone))
    # Rows that do not fit are refused even where there are none yet.
    conform(filled(_empty(batches), defaults), spec.schema)
    try:
        for batch in batches:
            writer.write(filled(batch, defaults))
        return writer.finish()
    except BaseException:
        writer.abandon()
        raise


def _empty(batches: pa.RecordBatchReader) -> pa.RecordBatch:
    columns = [pa.nulls(0, kind) for kind in batches.schema.types]
    return pa.RecordBatch.from_arrays(columns, schema=batches.schema)


class _TableWriter:
    """Keeps the open files of one write, at most one per partition."""

    def __init__(self, spec: WriteSpec, store: ObjectStore, checks: list[RowCheck]) -> None:
        self._spec = spec
        self._store = store
        self._checks = checks
        self._limits = text_limits(spec.schema)
        self._mode = spec.mode
        self._target = spec.file_size
        self._most = spec.max_records_per_file or sys.maxsize
        self._fields = partition_fields(spec.schema, spec.partition_columns)
        self._file_schema = file_schema(spec.schema, self._fields)
        self._layout: FileLayout = layout_of(
            self._file_schema, self._mode, spec.configuration, spec.features, spec.compression
        )
        self._open: dict[PartitionKey, OpenFile] = {}
        self._done: list[tuple[str, Add]] = []
        self._count = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        rows = conform(batch, self._spec.schema)
        enforce(self._checks, rows)
        enforce_lengths(self._limits, rows)
        for key, part in split(rows, self._fields, self._mode):
            kept = part.select(self._file_schema.names)
            self._append(key, to_physical(kept, self._file_schema, self._mode))

    def finish(self) -> list[Add]:
        for key in list(self._open):
            self._close(key)
        return [add for _, add in self._done]

    def abandon(self) -> None:
        """Leave nothing behind: unfinished files never appear, finished ones are deleted."""
        for file in self._open.values():
            with suppress(Exception):
                file.abandon(*sys.exc_info())
        for key, _ in self._done:
            with suppress(DeltaSqlError):
                self._store.delete(key)

    def _append(self, key: PartitionKey, rows: pa.RecordBatch) -> None:
        limit = min(MAX_ROW_GROUP_BYTES, self._target)
        # A batch may be far larger than a file should be.
        step = max(1, rows.num_rows * limit // max(rows.nbytes, 1))
        start = 0
        while start < rows.num_rows:
            file = self._open.get(key) or self._start(key)
            taken = rows.slice(start, min(step, self._most - file.rows))
            file.add(taken)
            start += taken.num_rows
            if file.buffered_bytes >= limit:
                file.flush()
            if file.size >= self._target or file.rows >= self._most:
                self._close(key)
        self._make_room()

    def _make_room(self) -> None:
        while sum(file.buffered_bytes for file in self._open.values()) > MAX_BUFFERED_BYTES:
            max(self._open.values(), key=lambda file: file.buffered_bytes).flush()
        started = [key for key, file in self._open.items() if file.is_started]
        for key in started[: max(0, len(started) - MAX_OPEN_FILES)]:
            self._close(key)

    def _start(self, key: PartitionKey) -> OpenFile:
        name = f"part-{self._count:05}-{self._spec.roll()}.c000{self._layout.suffix}"
        self._count += 1
        file = OpenFile(directory(key) + name, self._layout, self._store)
        self._open[key] = file
        return file

    def _close(self, key: PartitionKey) -> None:
        file = self._open[key]
        size, stats = file.close()
        del self._open[key]
        add = Add(
            path=encode_path(file.key),
            partition_values=dict(key),
            size=size,
            modification_time=self._spec.now_ms,
            data_change=self._spec.data_change,
            stats=stats,
        )
        self._done.append((file.key, add))


def file_schema(schema: StructType, partitions: Sequence[StructField]) -> StructType:
    """Return the columns that stand in the files of a table.

    Raises:
        SchemaError: there are none.
    """
    names = {one.name for one in partitions}
    kept = [one for one in schema.fields if one.name not in names and one.type.name != "void"]
    if not kept:
        raise SchemaError("The table has no column besides its partition columns.")
    for one in kept:
        _refuse_empty_structs(one.type, one.name)
    return StructType(tuple(kept))


def _refuse_empty_structs(kind: DataType, path: str) -> None:
    match kind:
        case StructType(fields=()):
            raise SchemaError(
                f"The column {path} is a struct without fields, which Parquet cannot hold.",
                column=path,
            )
        case StructType(fields=fields):
            for one in fields:
                _refuse_empty_structs(one.type, f"{path}.{one.name}")
        case ArrayType(element=element):
            _refuse_empty_structs(element, f"{path}.element")
        case MapType(key=key, value=value):
            _refuse_empty_structs(key, f"{path}.key")
            _refuse_empty_structs(value, f"{path}.value")
