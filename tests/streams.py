"""Streams for tests: run to the end of what is there, batch by batch, and told as plain rows."""

from pathlib import Path
from typing import Any

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
        return (
            writer.option("checkpointLocation", str(self.checkpoint)).trigger(**trigger).start()
        )

    @property
    def rows(self) -> Rows:
        """All rows, of all batches."""
        return sort_rows([row for batch in self.batches.values() for row in batch])

    def _take(self, frame: Any, number: int) -> None:
        self.batches[number] = sort_rows(frame.toArrow().to_pylist())


def ids(rows: Rows) -> list[int]:
    """Return the ids of rows, in order."""
    return sorted(row["id"] for row in rows)
