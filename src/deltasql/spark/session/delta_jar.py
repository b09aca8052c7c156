"""Delta Spark in a session: is it there, and the few things asked of its JVM."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

from deltasql.errors import BadArgumentError, MissingExtraError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARK = ".".join(pyspark.__version__.split(".")[:2])
# The jar is built for one minor version of Spark.
PACKAGE = f"io.delta:delta-spark_{_SPARK}_2.13:4.4.0"
_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_HINT = (
    f"Start Spark with deltasql.spark.session(delta=True), or with spark.jars.packages={PACKAGE}, "
    f"spark.sql.extensions={_EXTENSION} and spark.sql.catalog.spark_catalog={_CATALOG}."
)
# What else the jar names comes with Spark, or serves catalogs that are not used here.
_EXCLUDED = "io.unitycatalog:*,io.delta:delta-kernel-*"
_JARS = ("delta-spark_*.jar", "delta-storage-*.jar")


def delta_settings(delta: bool | str | Path) -> dict[str, str]:
    """Return what a session with Delta Spark is started with; a path is a directory of jars.

    Raises:
        MissingExtraError: the directory does not hold them.
    """
    if delta is False:
        return {}
    own = {"spark.sql.extensions": _EXTENSION, "spark.sql.catalog.spark_catalog": _CATALOG}
    if delta is True:
        return {**own, "spark.jars.packages": PACKAGE, "spark.jars.excludes": _EXCLUDED}
    return {**own, "spark.jars": ",".join(_jars(Path(delta)))}


def _jars(folder: Path) -> list[str]:
    found = [sorted(folder.glob(pattern)) for pattern in _JARS]
    if not all(found):
        raise MissingExtraError(
            f"There are no jars of Delta Spark in {folder}.",
            hint=f"It takes {' and '.join(_JARS)}; delta=True gets them by their names.",
        )
    return [str(jar.absolute()) for jars in found for jar in jars]


def require_delta(spark: SparkSession) -> None:
    """Refuse a session in which Delta Spark does not run.

    Raises:
        MissingExtraError: its jar or one of its settings is missing.
        BadArgumentError: the session is of Spark Connect, whose JVM nobody reaches.
    """
    if not hasattr(spark, "_jsparkSession"):
        raise BadArgumentError(
            "A session of Spark Connect cannot run transactions.",
            hint="Use a session in the driver's own process.",
        )
    if not has_delta(spark):
        raise MissingExtraError("Delta's jar is not in this Spark session.", hint=_HINT)
    extensions = spark.conf.get("spark.sql.extensions", None) or ""
    if _EXTENSION not in extensions:
        raise MissingExtraError("Delta's extension is not in this Spark session.", hint=_HINT)
    if spark.conf.get("spark.sql.catalog.spark_catalog", None) != _CATALOG:
        raise MissingExtraError("Delta's catalog is not in this Spark session.", hint=_HINT)


def has_delta(spark: SparkSession) -> bool:
    """Tell whether Delta's jar is in a classic session."""
    from py4j.java_gateway import JavaClass  # noqa: PLC0415 (loads only with Spark)

    return isinstance(delta_log(spark), JavaClass)


def hadoop_spelling(spark: SparkSession, path: str) -> str:
    """Return a local directory as Hadoop spells its URI: `file:/x`."""
    return f"file:{_jvm(spark).org.apache.hadoop.fs.Path(path).toUri().toString()}"


def forget_log(spark: SparkSession, path: str) -> None:
    """Let Delta Spark forget what it keeps of a log."""
    place = _jvm(spark).org.apache.hadoop.fs.Path(path)
    delta_log(spark).invalidateCache(spark._jsparkSession, place)  # noqa: SLF001 (no other way)


def delta_log(spark: SparkSession) -> Any:
    """Return Delta Spark's door to logs."""
    return _jvm(spark).org.apache.spark.sql.delta.DeltaLog


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm  # noqa: SLF001 (no other way)
