"""The writers of format("deltasql") as Spark handles them, without Spark: made here, copied to the
tasks, and committed by yet another copy.
"""

import pickle
from typing import Any

from pyspark.sql.pandas.types import from_arrow_schema

from builders import rows
from deltasql.spark.source.datasource import DeltaSqlSource


def copied(value: Any) -> Any:
    """What Spark does to everything that leaves a process."""
    return pickle.loads(pickle.dumps(value))


class SparkJob:
    """One write, step by step."""

    def __init__(self, uri: str, table: str = "orders", *, overwrite: bool = False, **options: str):
        self.source = DeltaSqlSource({"uri": uri, "table": table, **options})
        self.overwrite = overwrite
        self.schema = from_arrow_schema(rows(1).schema)
        self.writer = self.source.writer(self.schema, overwrite)

    def task(self, *numbers: int, day: str = "a") -> Any:
        """Run a task with these rows and return its message."""
        return copied(copied(self.writer).write(iter(rows(*numbers, day=day).to_batches())))

    def commit(self, *messages: Any, batch: int = 0) -> None:
        copied(self.writer).commit(list(messages))

    def abort(self, *messages: Any, batch: int = 0) -> None:
        copied(self.writer).abort(list(messages))


class SparkBatch(SparkJob):
    """One batch of a stream; its commit is made by a new writer, as Spark has it."""

    def __init__(self, uri: str, table: str = "orders", *, overwrite: bool = False, **options: str):
        options = {"checkpointLocation": "anywhere", "txnAppId": "query", **options}
        self.source = DeltaSqlSource({"uri": uri, "table": table, **options})
        self.overwrite = overwrite
        self.schema = from_arrow_schema(rows(1).schema)
        self.writer = self.source.streamWriter(self.schema, overwrite)

    def commit(self, *messages: Any, batch: int = 0) -> None:
        again = copied(self.source).streamWriter(self.schema, self.overwrite)
        again.commit(list(messages), batch)

    def abort(self, *messages: Any, batch: int = 0) -> None:
        again = copied(self.source).streamWriter(self.schema, self.overwrite)
        again.abort(list(messages), batch)
