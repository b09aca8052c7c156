"""Print the options by which the Spark of tests starts from an archive of its classes.

The archive is made in .cache if it is not there yet: a JVM that loads its classes from one starts
in about half the time. It belongs to one Java and one Spark; a JVM ignores one that does not fit.
Where none can be made nothing is printed, and Spark starts without.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from deltasql.errors import MissingExtraError
from deltasql.spark_runtime.java import find_java

CACHE = Path(__file__).parents[1] / ".cache"
# What the JVM says about an archive that does not fit would come on stdout.
QUIET = "-Xlog:disable -Xlog:all=error:stderr"
SECONDS = 300
REHEARSAL = """
import deltasql.spark
spark = deltasql.spark.session("local[1]")
rows = spark.range(10_000).selectExpr("id", "cast(id % 7 as string) as day", "id * 1.5 as sum")
place = {"location": "rows", "partition_by": ["day"]}
deltasql.spark.write(rows, "deltasql://sqlite/rehearsal.db", "rows", **place)
found = deltasql.spark.read(spark, "deltasql://sqlite/rehearsal.db", "rows", where="day = '3'")
found.groupBy("day").sum("sum").orderBy("day").collect()
found.where("id > 100").toArrow()
gateway = spark.sparkContext._gateway
spark.stop()
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()  # it writes the archive when it ends
"""


def main() -> int:
    try:
        java = find_java(os.environ)
    except MissingExtraError:
        return 0
    name = hashlib.sha256("\n".join([java, _release(java), version("pyspark")]).encode())
    archive = CACHE / f"spark-{name.hexdigest()[:16]}.jsa"
    if archive.is_file() or _record(archive):
        print(f"-XX:SharedArchiveFile={archive} {QUIET}")
    return 0


def _release(java: str) -> str:
    file = Path(java) / "release"
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _record(archive: Path) -> bool:
    CACHE.mkdir(exist_ok=True)
    unfinished = archive.with_name(f"{archive.name}.{os.getpid()}")
    env = os.environ | {"SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={unfinished} {QUIET}"}
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-c", REHEARSAL]
        done = subprocess.run(
            command, env=env, cwd=place, capture_output=True, timeout=SECONDS, check=False
        )
    if done.returncode or not unfinished.is_file():
        print(f"no archive: {done.stderr.decode().strip()[-500:]}", file=sys.stderr)
        unfinished.unlink(missing_ok=True)
        return False
    unfinished.replace(archive)
    return True


if __name__ == "__main__":
    sys.exit(main())
