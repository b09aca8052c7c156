"""Streams for tests: run to the end of what is there, batch by batch, and told as plain rows."""

import json
import pickle
from pathlib import Path
from typing import Any

from builders import rows
from deltasql.spark.source.datasource import DeltaSqlSource
from readers import Rows, sort_rows

Batches = list[Rows]


def ours(session, uri: str, table: str, **options: Any) -> Any:
    """Return a stream of a table of the catalog."""
    reader = session.readStream.format("deltasql").option("uri", uri).option("table", table)
    return _with(reader, options).load()


def deltas(session, place: str, **options: Any) -> Any:
    """Return Delta Spark's stream of the mirrored log."""
    return _with(session.readStream.format("delta"), options).load(place)


def _with(reader: Any, options: dict[str, Any]) -> Any:
    for key, value in options.items():
        reader = reader.option(key, str(value))
    return reader


class Sink:
    """Collects batches by their numbers: a batch that is run again replaces itself."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.batches: dict[int, Rows] = {}

    def drain(self, stream: Any) -> Batches:
        """Read all there is now; return the batches of this run that have rows."""
        before = set(self.batches)
        self.start(stream, availableNow=True).awaitTermination()
        new = sorted(set(self.batches) - before)
        return [self.batches[number] for number in new if self.batches[number]]

    def start(self, stream: Any, **trigger: Any) -> Any:
        """Begin to read."""
        writer = stream.writeStream.foreachBatch(self._take)
        return writer.option("checkpointLocation", str(self.checkpoint)).trigger(**trigger).start()

    @property
    def rows(self) -> Rows:
        """All rows, of all batches."""
        return sort_rows([row for batch in self.batches.values() for row in batch])

    def _take(self, frame: Any, number: int) -> None:
        self.batches[number] = sort_rows(frame.toArrow().to_pylist())


def append(table: Any, *numbers: int, day: str = "a") -> None:
    """Append rows, each by a commit of its own."""
    for number in numbers:
        table.append(rows(number, day=day))


def ids(found: Rows) -> list[int]:
    """Return the ids of rows, in order."""
    return sorted(row["id"] for row in found)


class Driver:
    """Spark's part of a stream without Spark: offsets first, then tasks, a new reader each run."""

    def __init__(self, uri: str, table: str, **options: Any) -> None:
        named = {key.lower(): str(value) for key, value in options.items()}
        self.options = {"uri": uri, "table": table, **named}
        self.log: list[dict[str, Any]] = []
        self.restart()

    def restart(self, **options: Any) -> None:
        """Go on from the checkpoint in a new process."""
        self.options |= {key.lower(): str(value) for key, value in options.items()}
        source = DeltaSqlSource(self.options)
        self.reader = pickle.loads(pickle.dumps(source.streamReader(source.schema())))

    def next(self, limit: Any = None) -> Rows | None:
        """Run a batch; None if there is nothing new."""
        if not self.log:
            self.log.append(self._plain(self.reader.initialOffset()))
        end = self._plain(self.reader.latestOffset(self.log[-1], limit))
        if end == self.log[-1]:
            return None
        self.log.append(end)
        return self.again()

    def again(self) -> Rows:
        """Run the last batch as a restart would."""
        tasks = self.reader.partitions(self.log[-2], self.log[-1])
        batches = [batch for task in tasks for batch in self._read(task)]
        return sort_rows([row for batch in batches for row in batch.to_pylist()])

    def drain(self) -> Batches:
        """Run batches until there is nothing new; return those that have rows."""
        found = list(iter(self.next, None))
        return [batch for batch in found if batch]

    def _read(self, task: Any) -> Any:
        """A task knows what was pickled, and nothing else."""
        reader, sent = pickle.loads(pickle.dumps((self.reader, task)))
        return reader.read(sent)

    def _plain(self, offset: dict[str, Any]) -> dict[str, Any]:
        return json.loads(json.dumps(offset))
