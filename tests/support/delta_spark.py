"""Stock Delta Spark, the reader that others are measured by: one small session per test process."""

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from deltasql.spark_runtime.java import environment
from readers import Rows, require, sort_rows

ROOT = Path(__file__).parents[2]
_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n%ex
"""
# By default Spark replays a log of ten lines in fifty tasks and makes classes for every query. Java
# compiles as it likes: all tests of a process share the session.
_SMALL = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
}


@functools.cache
def session() -> Any:
    """Return this process's session; skip, or fail where it is required, if it cannot be had."""
    found, java_home = find_jars(), find_java()
    try:
        import pyspark
        from pyspark.sql import SparkSession
    except ImportError as error:
        require("delta_spark", str(error))
    place = Path(tempfile.mkdtemp(prefix="deltasql-spark-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    (place / "log4j2.properties").write_text(_LOGGING)
    places = {"spark.local.dir": place / "local", "spark.sql.warehouse.dir": place / "warehouse"}
    builder = SparkSession.builder.master("local[2]").appName("deltasql tests")
    for key, value in {**_SMALL, **_DELTA, **places, "spark.jars": ",".join(found)}.items():
        builder = builder.config(key, str(value))
    own = {
        "JAVA_HOME": java_home,
        "PYSPARK_PYTHON": sys.executable,
        # tasks of tests import from here too
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(ROOT / "tests/support"), os.environ.get("PYTHONPATH")])
        ),
        "SPARK_CONF_DIR": str(place),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with environment(own):
        spark = builder.getOrCreate()
    atexit.register(spark.stop)
    return spark


def read_delta_spark(
    uri: str, options: dict[str, str] | None = None, version=None, *, timestamp=None, where=None
) -> Rows:
    """Return the rows of a table on local files: now, of one version, or of a time."""
    assert not options, "object stores need more jars than are installed"
    frame = _frame(uri, versionAsOf=version, timestampAsOf=timestamp)
    return sort_rows((frame if where is None else frame.where(where)).toArrow().to_pylist())


def count_files(place: str, where: str) -> int:
    """Return how many files are left to read when the statistics have had their say."""
    return len(_frame(place).where(where).inputFiles())


def history(place: str) -> Rows:
    """Return what DESCRIBE HISTORY tells, the newest version first."""
    return session().sql(f"describe history delta.`{place}`").toArrow().to_pylist()


def run(statement: str) -> None:
    """Run a statement of Spark's SQL."""
    session().sql(statement).collect()


def write_checkpoint(place: str) -> None:
    """Let Delta Spark write a checkpoint of its own at the table's newest version."""
    # Parquet has given up INT96, which Spark still takes for times if it is not told otherwise
    session().conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    _delta_log().forTable(session()._jsparkSession, place).checkpoint()


def forget() -> None:
    """Let Delta Spark look at the files again, as a new process would."""
    _delta_log().clearCache()


def complaint(error: BaseException) -> str:
    """Return what an error of Spark says; those of Delta arrive wrapped."""
    thrown = getattr(error, "java_exception", None)
    return str(error) if thrown is None else str(thrown.toString())


def _frame(place: str, **options: Any) -> Any:
    reader = session().read.format("delta")
    for key, value in options.items():
        if value is not None:
            reader = reader.option(key, str(value))
    return reader.load(place)


def _delta_log() -> Any:
    return session()._jvm.org.apache.spark.sql.delta.DeltaLog


def jars() -> list[str]:
    """Return Delta's jars, if they are there."""
    place = Path(os.environ.get("DELTASQL_TEST_JARS") or ROOT / ".tools/jars")
    return sorted(str(jar) for jar in place.glob("*.jar"))


def find_jars() -> list[str]:
    """Return Delta's jars; skip, or fail where they are required, if there are none."""
    found = jars()
    if not found:
        require("delta_spark", "Delta's jars are not installed (make servers)")
    return found


def find_java() -> str:
    """Return the Java that Spark runs on; skip, or fail where it is required, without one."""
    told = subprocess.run(
        [ROOT / "tools/java_home.sh"], capture_output=True, text=True, check=False
    )
    if told.returncode:
        require("delta_spark", told.stderr.strip())
    return told.stdout.strip()
