"""The rows of a checkpoint: a thread reads SQL ahead while the ones before are written."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from functools import partial

import pyarrow as pa

from deltasql.catalog.checkpoint_source import CheckpointSource
from deltasql.data.ordered import in_order
from deltasql.log.row_groups import cut
from deltasql.parity.row_digests import WrittenRows
from deltasql.protocol.checkpoint import CheckpointShape

Piece = tuple[str, pa.RecordBatch]


def checkpoint_rows(
    source: CheckpointSource, shape: CheckpointShape, written: WrittenRows
) -> Generator[pa.Table, None, None]:
    """Yield all rows in their order, and note in `written` what SQL gave before it was shaped."""
    snapshot = source.snapshot
    head = shape.head(snapshot.protocol, snapshot.metadata, source.txns(), snapshot.domains())
    written.skip(head.num_rows)
    yield head
    into = {"add": shape.adds, "remove": shape.removes}
    read = partial(_files, source, head.num_rows, written)
    with closing(in_order([read], threads=1)) as pieces:
        for kind, files in pieces:
            yield into[kind](files)


def _files(source: CheckpointSource, before: int, written: WrittenRows) -> Iterator[Piece]:
    done = before
    with source.read() as read:
        for kind, batches in (("add", read.adds()), ("remove", read.removes())):
            for piece in cut(batches, rows=written.group_rows, after=done):
                written.take(kind, piece)
                yield kind, piece
                done += piece.num_rows
