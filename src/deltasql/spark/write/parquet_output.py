"""Rows to Parquet files by Spark's own writer, and what it wrote as adds.

The rows that the job saw are compared with those in the files' footers: a file that got lost, or
came twice, is found before anything is committed.

Partition values by way of Spark's folder names: what Spark is given, and how they are read. Spark
prints a timestamp in the session's zone, where an hour may come twice; it is given the time in
UTC without a zone instead.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from deltasql.crash import crash_point
from deltasql.data.parquet_file import FileLayout, footer_stats, layout_of
from deltasql.data.partitions import partition_fields
from deltasql.data.writer import WriteSpec, file_schema
from deltasql.errors import ConfigError, CorruptDataError, SchemaError, UnsupportedFeatureError
from deltasql.protocol.actions import Add
from deltasql.protocol.log_names import WRITE_PREFIX
from deltasql.protocol.schema.arrow import FIELD_ID
from deltasql.protocol.schema.columns import MappingMode, physical_name
from deltasql.protocol.schema.types import StructField, StructType
from deltasql.protocol.values import parse_partition_value, print_partition_value
from deltasql.spark.session.spark_session import translate_spark_errors
from deltasql.spark.session.spark_types import file_fields
from deltasql.spark.write.row_expressions import SparkCheck, quoted
from deltasql.storage.durable_files import sync_directory
from deltasql.storage.paths import encode_path
from deltasql.storage.port import ObjectStore

# Where tasks write until they are done; one that came too late may have left something.
_UNFINISHED = "_temporary"
_PIECE = 8 * 1024 * 1024

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_IN_UTC = "timestampadd(MICROSECOND, unix_micros({}), TIMESTAMP_NTZ'1970-01-01 00:00:00')"

_ROWS = "rows"

# Marks of files whose dates or times count by another calendar than Delta's.
_OLD_CALENDARS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


@dataclass(frozen=True, slots=True)
class OutputFolder:
    """A folder of this machine, named like the folder of the table that its files belong to."""

    path: Path
    key: str
    store: ObjectStore
    is_inside: bool

    @property
    def uri(self) -> str:
        """The folder as Hadoop wants it: a scheme, and the path as it is."""
        return f"file:{self.path}"

    def files(self) -> list[Path]:
        """Return the data files in it, sorted; hidden names and unfinished files are no data."""
        return sorted(file for file in self.path.rglob("*.parquet") if self._is_data(file))

    def _is_data(self, file: Path) -> bool:
        is_finished = file.relative_to(self.path).parts[0] != _UNFINISHED
        return is_finished and not file.name.startswith((".", "_")) and file.is_file()

    def key_of(self, file: Path) -> str:
        """Return the key of a file in the table's store."""
        return f"{self.key}/{file.relative_to(self.path).as_posix()}"

    def keep(self, files: list[Path]) -> None:
        """Make files durable parts of the table, before any commit names them."""
        if not self.is_inside:
            for file in files:
                self._send(file)
            return
        for file in files:
            _sync(file)
        folders = {above for file in files for above in file.parents if above >= self.path}
        for folder in sorted(folders | {self.path.parent}):
            sync_directory(folder)

    def _send(self, file: Path) -> None:
        with file.open("rb") as source, self.store.open_output(self.key_of(file)) as sink:
            shutil.copyfileobj(source, sink, _PIECE)


@contextmanager
def open_folder(store: ObjectStore, name: str) -> Iterator[OutputFolder]:
    """Give a folder that no other write uses; what a failed write has left in it is deleted."""
    inside = store.local_path(name)
    if inside is None:
        with tempfile.TemporaryDirectory(prefix="deltasql-write-") as place:
            yield OutputFolder(Path(place) / name, name, store, is_inside=False)
        return
    folder = OutputFolder(Path(inside), name, store, is_inside=True)
    try:
        yield folder
    except BaseException:
        # no commit names it: the caller learns of no file before this block has ended well
        shutil.rmtree(folder.path, ignore_errors=True)
        raise


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def folder_expression(quoted: str, kind: str) -> str:
    """Return the SQL of the value that Spark shall name folders by."""
    return _IN_UTC.format(quoted) if kind == "timestamp" else quoted


def folder_values(
    folders: Sequence[str], fields: Sequence[StructField], mode: MappingMode
) -> dict[str, str | None]:
    """Return the partition values of a file as the log spells them, from the folders above it.

    Raises:
        SchemaError: a value is one that the log cannot spell.
        CorruptDataError: the folders are not those of the partition columns.
    """
    if len(folders) != len(fields):
        raise CorruptDataError(f"Spark left a file below {'/'.join(folders)!r}.")
    return {
        physical_name(field, mode): _value(folder, field, physical_name(field, mode))
        for folder, field in zip(folders, fields, strict=True)
    }


def _value(folder: str, field: StructField, name: str) -> str | None:
    found, _, escaped = folder.partition("=")
    if unquote(found) != name:
        raise CorruptDataError(f"Spark left a file below {folder!r}, not below {name}=….")
    if escaped == _HIVE_NULL:
        return None
    text = unquote(escaped)
    if field.type.name == "string":
        return text or None
    value = parse_partition_value(text, field.type)
    try:
        if value is not None:
            return print_partition_value(value, field.type)
    except (ValueError, OverflowError):
        pass  # a year that not every reader reads
    raise SchemaError(
        f"The partition column {field.name} holds {text!r}, which the log cannot spell.",
        column=field.name,
    )


@dataclass(frozen=True, slots=True)
class ParquetOutput:
    """How Spark writes the files of one table; rows come under the table's names and types."""

    spec: WriteSpec
    checks: Sequence[SparkCheck] = ()
    max_records_per_file: int | None = None

    def write(self, frame: DataFrame, store: ObjectStore) -> list[Add]:
        """Write all rows as new files and return their adds; no rows, no files.

        Raises:
            SparkJobError: the job failed.
            ConstraintViolationError: a row breaks a constraint.
            CorruptDataError: the files do not hold the rows that the job saw.
        """
        with open_folder(store, f"{WRITE_PREFIX}{self.spec.roll()}") as folder:
            _require_reach(frame, folder)
            _refuse_binary(self._partitions)
            with translate_spark_errors():
                seen = self._run(frame, folder)
            crash_point("after-spark-job")
            for at, check in self._numbered:
                check.refuse(seen[f"check{at}"])
            adds = self._adds(folder, seen[_ROWS])
        crash_point("after-spark-files")
        return adds

    @property
    def _partitions(self) -> list[StructField]:
        return partition_fields(self.spec.schema, self.spec.partition_columns)

    @property
    def _columns(self) -> StructType:
        return file_schema(self.spec.schema, self._partitions)

    def _run(self, frame: DataFrame, folder: OutputFolder) -> dict[str, int]:
        seen = Observation()
        counts = [F.count_if(check.broken).alias(f"check{at}") for at, check in self._numbered]
        watched = frame.observe(seen, F.count(F.lit(1)).alias(_ROWS), *counts)
        writer = (
            self._in_files(watched)
            .write.format("parquet")
            .option("compression", self.spec.compression)
            # INT96 has no bounds in the footer, and other readers have given it up
            .option("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
            .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        )
        if self.max_records_per_file is not None:
            writer = writer.option("maxRecordsPerFile", self.max_records_per_file)
        if self._partitions:
            writer = writer.partitionBy(*(self._name(field) for field in self._partitions))
        writer.mode("error").save(folder.uri)
        return dict(seen.get)

    @property
    def _numbered(self) -> list[tuple[int, SparkCheck]]:
        return list(enumerate(self.checks))

    def _name(self, field: StructField) -> str:
        return physical_name(field, self.spec.mode)

    def _in_files(self, frame: DataFrame) -> DataFrame:
        """Return the rows as they stand in files, the partition columns behind the others."""
        kept = [self._in_file(field) for field in self._columns.fields]
        folders = [
            F.expr(folder_expression(quoted(field.name), field.type.name)).alias(self._name(field))
            for field in self._partitions
        ]
        return frame.select(*kept, *folders)

    def _in_file(self, field: StructField) -> Column:
        column = F.col(quoted(field.name))
        if self.spec.mode == "none":
            return column
        (told,) = file_fields(StructType((field,)), self.spec.mode)
        # the cast gives nested members their names and ids, the alias does so for the column
        return column.cast(told.dataType).alias(told.name, metadata=told.metadata)

    def _adds(self, folder: OutputFolder, rows: int) -> list[Add]:
        layout = layout_of(
            self._columns,
            self.spec.mode,
            self.spec.configuration,
            self.spec.features,
            self.spec.compression,
        )
        footers = [(file, _footer(file, layout)) for file in folder.files()]
        held = sum(footer.num_rows for _, footer in footers)
        if held != rows:
            raise CorruptDataError(
                f"Spark wrote {rows} rows, but the files it left hold {held}.",
                hint="Nothing was committed. Something deletes files below the table, or Spark's "
                "executors do not see its folder.",
            )
        filled = [(file, footer) for file, footer in footers if footer.num_rows]
        folder.keep([file for file, _ in filled])
        return [self._add(folder, file, footer_stats(footer, layout)) for file, footer in filled]

    def _add(self, folder: OutputFolder, file: Path, stats: str) -> Add:
        told = file.stat()
        above = file.relative_to(folder.path).parent.parts
        return Add(
            path=encode_path(folder.key_of(file)),
            partition_values=folder_values(above, self._partitions, self.spec.mode),
            size=told.st_size,
            modification_time=told.st_mtime_ns // 1_000_000,
            data_change=self.spec.data_change,
            stats=stats,
        )


def _require_reach(frame: DataFrame, folder: OutputFolder) -> None:
    """Refuse to write by way of this machine's disk where Spark's tasks run on others."""
    with translate_spark_errors():
        master = frame.sparkSession.conf.get("spark.master", "") or ""
    if not folder.is_inside and not master.startswith("local"):
        raise UnsupportedFeatureError(
            f"Rows for {folder.store.uri} pass through this machine's disk, but Spark's tasks "
            f"run elsewhere ({master or 'an unknown master'}).",
            hint="Write to a table on files that all of Spark's machines share, or use a Spark "
            "with a local master.",
        )


def _refuse_binary(partitions: Sequence[StructField]) -> None:
    """Spark names folders by text, in which bytes may get lost."""
    for field in partitions:
        if field.type.name == "binary":
            raise UnsupportedFeatureError(
                f"Spark cannot write to the binary partition column {field.name}.",
                hint="Write fewer rows at a time, which the driver writes, or use Table.append.",
                column=field.name,
            )


def _footer(file: Path, layout: FileLayout) -> Any:
    """Return the footer of a file, made sure that its columns stand where they are looked for."""
    try:
        footer = pq.read_metadata(file)
    except (pa.ArrowException, OSError) as error:
        raise CorruptDataError(f"The footer of {file.name} cannot be read: {error}.") from error
    written = footer.schema.to_arrow_schema()
    if written.names != layout.schema.names or _lacks_ids(written, layout.schema):
        raise CorruptDataError(
            f"Spark wrote other columns to {file.name} than it was given.",
            hint="Nothing was committed. If spark.sql.parquet.fieldId.write.enabled is false, "
            "set it to true.",
        )
    if any(mark in (footer.metadata or {}) for mark in _OLD_CALENDARS):
        raise ConfigError(
            "Spark is set to write dates by the old calendar, which other readers misread.",
            hint="Set spark.sql.parquet.datetimeRebaseModeInWrite to CORRECTED.",
        )
    return footer


def _lacks_ids(written: pa.Schema, wanted: pa.Schema) -> bool:
    """Tell whether a column lacks the id by which the table maps it."""
    pairs = zip(written, wanted, strict=True)
    return any(_id(mine) != _id(other) for mine, other in pairs if _id(other) is not None)


def _id(field: pa.Field) -> bytes | None:
    found: bytes | None = (field.metadata or {}).get(FIELD_ID)
    return found
