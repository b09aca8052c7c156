"""Rows to Parquet files by Spark's own writer, and what it left as adds.

The rows that the job saw are compared with those in the files' footers: a file that got lost, or
came twice, is found before anything is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from deltasql.crash import crash_point
from deltasql.data.parquet_file import FileLayout, footer_stats, layout_of
from deltasql.data.partitions import partition_fields
from deltasql.data.writer import WriteSpec, file_schema
from deltasql.errors import ConfigError, CorruptDataError, UnsupportedFeatureError
from deltasql.protocol.actions import Add
from deltasql.protocol.arrow_schema import FIELD_ID
from deltasql.protocol.columns import physical_name
from deltasql.protocol.files import WRITE_PREFIX
from deltasql.protocol.schema import StructField, StructType
from deltasql.spark.causes import told_by_spark
from deltasql.spark.frame_schema import file_fields
from deltasql.spark.output_columns import quoted
from deltasql.spark.output_folder import OutputFolder, open_folder
from deltasql.spark.partition_folders import folder_expression, folder_values
from deltasql.spark.row_checks import SparkCheck
from deltasql.storage.paths import encode_path
from deltasql.storage.port import ObjectStore

_ROWS = "rows"
# Marks of files whose dates or times count by another calendar than Delta's.
_OLD_CALENDARS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


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
            with told_by_spark():
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
    with told_by_spark():
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
