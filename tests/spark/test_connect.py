"""Spark Connect: what its API allows works, the rest says so."""

import os
import subprocess
import sys

import pytest

import delta_spark

PROGRAM = """
import sys
from pyspark.sql import SparkSession
import deltasql.spark
from deltasql.errors import DeltaSqlError

uri, place = sys.argv[1:]
spark = SparkSession.builder.remote("local[1]").getOrCreate()
few = spark.createDataFrame([(1, "a"), (2, "b"), (3, None)], "id bigint, name string")
print(deltasql.spark.write(few, uri, "t", location=place, partition_by=["name"]))
print(deltasql.spark.write(spark.range(4, 6), uri, "t", mode="append"))
found = deltasql.spark.read(spark, uri, "t", where="id > 1")
print(sorted((row.id, row.name or "") for row in found.collect()))
print(deltasql.spark.read(spark, uri, "t").count())
source = spark.read.format("deltasql").option("table", "t").load(uri)
print(source.where("name = 'a'").count())
print(deltasql.spark.attach(spark, uri), spark.sql("select sum(id) as s from t").first().s)
try:
    with deltasql.spark.transaction(spark, uri):
        pass
except DeltaSqlError as error:
    print(error.message)
try:
    deltasql.spark.write(spark.createDataFrame([("x",)], "id string"), uri, "t")
except DeltaSqlError as error:
    print(error.message)
"""
TOLD = """\
0
1
[(2, 'b'), (3, ''), (4, ''), (5, '')]
5
1
('t',) 15
A session of Spark Connect cannot run transactions.
The column id is of type long and cannot take values of type string.
"""


@pytest.mark.verify
def test_reads_and_writes_through_spark_connect(tmp_path):
    env = {
        **os.environ,
        "JAVA_HOME": delta_spark.find_java(),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    given = [f"deltasql://sqlite/{tmp_path}/catalog.db", str(tmp_path / "t")]

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *given],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == TOLD
