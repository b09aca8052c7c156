"""Files that SQL chose as a DataFrame, scanned by Delta Spark's own reader.

Delta Spark is shown an empty log with the table's protocol and metadata, which it opens once, and
is given the files of each read: deletion vectors, widened types and columns found by their ids are
read by its own reader, and no log is replayed. The door to it is internal: where it does not open,
the table is read another way.
"""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from deltasql.errors import CorruptDataError, UnsafePathError
from deltasql.metastore.references import paths_of
from deltasql.metastore.snapshot.file_list import ACTION_COLUMNS, adds_of
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.protocol.codec import serialize_actions
from deltasql.protocol.features import without_fence
from deltasql.protocol.log_names import LOG_FOLDER, commit_key
from deltasql.protocol.predicate import Predicate
from deltasql.protocol.schema.columns import mapping_mode
from deltasql.spark.session.delta_jar import delta_log, forget_log, hadoop_spelling, has_delta
from deltasql.spark.transactions.path_translation import StagedPlace, Translation
from deltasql.spark.transactions.staged_log import local_root, write_state
from deltasql.storage.paths import RelativeKey, resolve_path

_logger = logging.getLogger(__name__)
OpenedLog: TypeAlias = tuple[Any, Any]
_BY_ID = "spark.sql.parquet.fieldId.read.enabled"
# One by one through Py4J up to here, then as a log of their own; more would fill the driver.
_FEW = 3_000
_MOST = 100_000
_LOGS = 64


def delta_can_scan(spark: SparkSession, snapshot: Snapshot, files: pa.Table) -> bool:
    """Tell whether Delta's reader is in the session and can read these files as we do."""
    # the empty log is on the driver's own disk
    is_near = str(spark.sparkContext.master).startswith("local") and has_delta(spark)
    if not is_near or not 0 < files.num_rows <= _MOST or _lead_elsewhere(files):
        return False
    by_id = mapping_mode(snapshot.metadata.configuration) == "id"
    if by_id and str(spark.conf.get(_BY_ID)).lower() != "true":
        return False
    return _empty_log(spark, _head(snapshot)) is not None


def scan_by_delta(spark: SparkSession, snapshot: Snapshot, where: Predicate | None) -> DataFrame:
    """Return the rows of the files that may hold what a filter wants, if `delta_can_scan`.

    Raises:
        CorruptDataError: a file is missing.
    """
    opened = _empty_log(spark, _head(snapshot))
    assert opened is not None  # noqa: S101 (that was asked before)
    files = snapshot.files(ACTION_COLUMNS, where=where)
    _require_all(local_root(snapshot), files)
    root = hadoop_spelling(spark, str(local_root(snapshot)))
    place = StagedPlace(snapshot.table.full_name, root, uuid.uuid4().hex)
    few = files.num_rows <= _FEW
    found = _one_by_one(spark, files, place) if few else _by_a_log(spark, snapshot, files, place)
    return _frame(spark, opened, found)


def _frame(spark: SparkSession, opened: OpenedLog, files: Any) -> DataFrame:
    jvm: Any = spark._jvm  # noqa: SLF001 (the only door)
    log, snapshot = opened
    is_streaming, no_tag = False, jvm.scala.Option.empty()
    return DataFrame(log.createDataFrame(snapshot, files, is_streaming, no_tag), spark)


def _one_by_one(spark: SparkSession, files: pa.Table, place: StagedPlace) -> Any:
    jvm: Any = spark._jvm  # noqa: SLF001
    parse = jvm.org.apache.spark.sql.delta.actions.Action.fromJson  # each dot is a round trip
    found = jvm.java.util.ArrayList()
    for add in Translation.of(adds_of(files.to_batches()), place).staged_adds():
        # SQL has skipped by the statistics already
        found.add(parse(serialize_actions([msgspec.structs.replace(add, stats=None)]).decode()))
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(found).toSeq()


def _by_a_log(spark: SparkSession, snapshot: Snapshot, files: pa.Table, place: StagedPlace) -> Any:
    """Let Delta Spark read the files from a log that is gone afterwards."""
    jvm: Any = spark._jvm  # noqa: SLF001
    folder = _logs() / place.folder
    try:
        write_state(folder, snapshot, iter(files.to_batches()), place)
        _, staged = _open(spark, folder)
        return jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(staged.allFiles().collect())
    finally:
        forget_log(spark, str(folder))
        shutil.rmtree(folder, ignore_errors=True)


@lru_cache(maxsize=_LOGS)
def _empty_log(spark: SparkSession, head: bytes) -> OpenedLog | None:
    """Open a log with a table's protocol and metadata; None if Delta Spark does not."""
    folder = _logs() / uuid.uuid4().hex
    (folder / LOG_FOLDER).mkdir(parents=True)
    (folder / commit_key(0)).write_bytes(head)
    jvm: Any = spark._jvm  # noqa: SLF001
    try:
        opened = _open(spark, folder)
        nothing = jvm.scala.jdk.javaapi.CollectionConverters.asScala(jvm.java.util.ArrayList())
        _frame(spark, opened, nothing.toSeq())
    except (Py4JError, TypeError) as error:
        # the table is read all the same, only slower
        _logger.info("Delta Spark cannot be given files: %s", str(error).partition("\n")[0])
        return None
    return opened


def _open(spark: SparkSession, folder: Path) -> OpenedLog:
    log = delta_log(spark).forTable(spark._jsparkSession, str(folder))  # noqa: SLF001
    return log, log.unsafeVolatileSnapshot()


def _head(snapshot: Snapshot) -> bytes:
    return serialize_actions([without_fence(snapshot.protocol), snapshot.metadata])


def _lead_elsewhere(files: pa.Table) -> bool:
    """Tell whether a path is not below the table's root: our own reader has its rules for that."""
    try:
        return any(not isinstance(resolve_path(path), RelativeKey) for path in _paths(files))
    except UnsafePathError:
        return True


def _require_all(root: Path, files: pa.Table) -> None:
    """A file that is not there is told now, and with our error."""
    keys = {resolve_path(path).key for path in _paths(files)}
    missing = [key for key in keys if not (root / key).exists()]
    if missing:
        raise CorruptDataError(
            f"{len(missing)} of the {len(keys)} files to read are missing.",
            hint="`deltasql fsck` tells which; a vacuum or a hand may have deleted them.",
        )


def _paths(files: pa.Table) -> Iterator[str]:
    columns = (files["path"].to_pylist(), files["deletion_vector"].to_pylist())
    for path, vector in zip(*columns, strict=True):
        yield from paths_of(path, vector)


@cache
def _logs() -> Path:
    """Return the directory of this process's logs; it ends with the process."""
    place = Path(tempfile.mkdtemp(prefix="deltasql-logs-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place
