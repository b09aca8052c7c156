"""The rows of one task of Spark as new files of a table; the driver learns of them by a message.

A task that Spark runs twice writes files twice, under names of their own: those whose message
Spark hands to the commit count, and no others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from deltasql.clock import now_ms
from deltasql.data.writer import WriteSpec, write_files
from deltasql.errors import CorruptDataError
from deltasql.protocol.actions import Add
from deltasql.protocol.codec import decode_commit, serialize_actions
from deltasql.protocol.stats import parse_stats
from deltasql.storage.resolve import StoreOpener


@dataclass(frozen=True)
class FilesMessage(WriterCommitMessage):
    """What one task has written: the lines of its adds, and how many rows it was given."""

    lines: bytes
    rows: int

    @property
    def adds(self) -> list[Add]:
        """The files."""
        found = decode_commit(self.lines, version=None)
        return [action for action in found if isinstance(action, Add)]


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """What a task must know to write files."""

    opener: StoreOpener
    spec: WriteSpec

    def write(self, batches: Iterator[pa.RecordBatch]) -> FilesMessage:
        """Write all rows of a task; no rows, no files.

        Raises:
            SchemaError, ConstraintViolationError: the rows do not fit.
            CorruptDataError: the files hold another number of rows.
        """
        first = next(batches, None)
        if first is None:
            return FilesMessage(b"", 0)
        counted = 0

        def rows() -> Iterator[pa.RecordBatch]:
            nonlocal counted
            batch = first
            while batch is not None:
                counted += batch.num_rows
                yield batch
                batch = next(batches, None)

        store = self.opener()
        spec = replace(self.spec, now_ms=now_ms())
        try:
            reader = pa.RecordBatchReader.from_batches(first.schema, rows())
            adds = write_files(reader, spec, store)
        finally:
            store.close()
        require_rows(adds, counted)
        return FilesMessage(serialize_actions(adds), counted)


def all_adds(messages: list[WriterCommitMessage | None]) -> list[Add]:
    """Return the files of all tasks.

    Raises:
        CorruptDataError: a task has told nothing, or other rows than its files hold.
    """
    adds: list[Add] = []
    for message in messages:
        if not isinstance(message, FilesMessage):
            raise CorruptDataError("A task of the write has told nothing of its files.")
        require_rows(message.adds, message.rows)
        adds += message.adds
    return adds


def require_rows(adds: list[Add], rows: int) -> None:
    """Make sure that the footers of files tell as many rows as there were.

    Raises:
        CorruptDataError: they do not.
    """
    stats = [parse_stats(add.stats) for add in adds]
    held = sum((one.num_records or 0) for one in stats if one is not None)
    if held != rows:
        raise CorruptDataError(
            f"A task wrote {rows} rows, but its files hold {held}.",
            hint="Nothing was committed.",
        )
