"""Spark in the demo: the import runs on it, and it reads the table at the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Self

from deltasql.spark_runtime.launch import ImportSession, available, import_session
from readers import Count, MissingError

_MASTER = "local[2]"
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # by default it replays a log of ten lines in fifty tasks
    "spark.databricks.delta.snapshotPartitions": "2",
}
_MISSING = "Spark is not installed (pip install 'deltasql[spark]'): this process did the work."


@dataclass(frozen=True, slots=True)
class DemoSpark:
    """A session for the whole demo, or none where there is no Spark."""

    session: ImportSession | None
    has_delta: bool

    @classmethod
    @contextmanager
    def start(cls, jars: str | None) -> Iterator[Self]:
        """Start Spark if it is here, with Delta's jars if they are given."""
        if not available():
            yield cls(None, has_delta=False)
            return
        found = sorted(str(jar) for jar in Path(jars).glob("*.jar")) if jars else []
        conf = {"spark.jars": ",".join(found), **_DELTA} if found else {}
        session = import_session(_MASTER, {**conf, "spark.sql.shuffle.partitions": "2"})
        try:
            yield cls(session, has_delta=bool(found))
        finally:
            session.close()

    @property
    def engine(self) -> str:
        """On what the import runs."""
        return "local" if self.session is None else "spark"

    @property
    def note(self) -> str:
        """What is to be said about it."""
        return _MISSING if self.session is None else ""

    def read(self, place: str) -> Count:
        """Count with Spark and Delta's own reader, from the log.

        Raises:
            MissingError: there is no Spark, or Delta's jar is not given.
        """
        if self.session is None:
            raise MissingError("Spark is not installed.")
        if not self.has_delta:
            raise MissingError("Delta's jar for Spark is not there.")
        frame: Any = self.session.spark.read.format("delta").load(place)
        [found] = frame.selectExpr("count(*) as number", "sum(amount) as total").collect()
        return int(found["number"]), Decimal(str(found["total"] or 0))
