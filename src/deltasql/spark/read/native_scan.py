"""A list of files as a DataFrame, scanned by Spark's own Parquet reader.

The relation is put together from Spark's own parts, as Delta Spark puts its own together: so the
schema is exact, nullability included, and partition values are those of the log, whatever the
directories are called. Nothing is listed but the files that SQL names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StructField, StructType

from deltasql.errors import CorruptDataError

# More paths than this make Spark start a job only to look at them.
_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_NO_JOB = str(2**30)
_DATASOURCES = "org.apache.spark.sql.execution.datasources"
_BETWEEN = "\n"

Values = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class FileList:
    """Files by their directories; all files of a directory have its partition values."""

    schema: StructType
    partition_columns: tuple[str, ...]
    directories: Mapping[str, Values]
    paths: Sequence[str]


def scan_natively(spark: SparkSession, files: FileList) -> DataFrame:
    """Return the rows of the files; a file that is not there is told now, not passed over.

    Raises:
        CorruptDataError: a file is missing.
    """
    jvm, session = spark._jvm, spark._jsparkSession  # noqa: SLF001 (Spark's door to its own parts)
    assert jvm is not None  # noqa: S101 (a classic session has one)
    parts = _part(jvm, _DATASOURCES)
    partitions = StructType([files.schema[name] for name in files.partition_columns])
    nothing, no_options = jvm.scala.Option.empty(), jvm.scala.collection.immutable.HashMap()
    spec = parts.PartitionSpec(_jschema(jvm, partitions), _partitions(spark, files, partitions))
    no_cache = getattr(getattr(parts, "NoopCache$"), "MODULE$")
    with _looking_from_here(spark):
        index = parts.InMemoryFileIndex(
            session,
            _paths(jvm, files.paths),
            no_options,
            jvm.scala.Option.apply(_jschema(jvm, files.schema)),
            no_cache,
            jvm.scala.Option.apply(spec),
            nothing,
        )
    _require_all(index, files.paths)
    relation = parts.HadoopFsRelation(
        index,
        _jschema(jvm, partitions),
        _jschema(jvm, files.schema),
        nothing,
        parts.parquet.ParquetFileFormat(),
        no_options,
        session,
    )
    return DataFrame(session.baseRelationToDataFrame(relation), spark)


def _partitions(spark: SparkSession, files: FileList, columns: StructType) -> Any:
    """Return each directory with its values, which Spark itself reads from their texts."""
    jvm = spark._jvm  # noqa: SLF001
    assert jvm is not None  # noqa: S101
    found = jvm.java.util.ArrayList()
    if columns.fields and files.directories:
        path_of = _part(jvm, _DATASOURCES).PartitionPath
        rows = _rows(spark, list(files.directories.values()), columns.fields)
        directories = _paths(jvm, list(files.directories))
        for number in range(len(files.directories)):
            found.add(path_of(rows[number], directories.apply(number)))
    return _sequence(jvm, found)


def _rows(spark: SparkSession, values: Sequence[Values], fields: Sequence[StructField]) -> Any:
    """Return Spark's rows of these partition values, in their order."""
    # "" is null: the log has no other way to say it
    told = [{f"c{at}": one.get(f.name) or None for at, f in enumerate(fields)} for one in values]
    struct = ",".join(f"c{at}:string" for at in range(len(fields)))
    casts = [f"cast(c{at} as {f.dataType.simpleString()})" for at, f in enumerate(fields)]
    text, kind = fn.lit(json.dumps(told)), f"array<struct<{struct}>>"
    rows = spark.range(1).select(fn.inline(fn.from_json(text, kind))).selectExpr(*casts)
    return rows._jdf.queryExecution().executedPlan().executeCollect()  # noqa: SLF001


def _paths(jvm: Any, paths: Sequence[str]) -> Any:
    """Return paths as Spark's sequence of them, in three calls for all."""
    strings = jvm.org.apache.hadoop.util.StringUtils
    if not paths:
        return _sequence(jvm, jvm.java.util.ArrayList())
    told = strings.getStrings(_BETWEEN.join(f"file:{path}" for path in paths), _BETWEEN)
    return jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(strings.stringToPath(told))


def _require_all(index: Any, paths: Sequence[str]) -> None:
    """Spark passes a file over that is not there when it looks: we do not."""
    count = index.allFiles().size()
    if count != len(paths):
        raise CorruptDataError(
            f"{len(paths) - count} of the {len(paths)} files to read are missing.",
            hint="`deltasql fsck` tells which; a vacuum or a hand may have deleted them.",
        )


@contextmanager
def _looking_from_here(spark: SparkSession) -> Iterator[None]:
    before = str(spark.conf.get(_THRESHOLD))
    spark.conf.set(_THRESHOLD, _NO_JOB)
    try:
        yield
    finally:
        spark.conf.set(_THRESHOLD, before)


def _sequence(jvm: Any, values: Any) -> Any:
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(values).toSeq()


def _jschema(jvm: Any, schema: StructType) -> Any:
    return jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())


def _part(jvm: Any, name: str) -> Any:
    found = jvm
    for each in name.split("."):
        found = getattr(found, each)
    return found
