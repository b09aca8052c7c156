"""Checkpoints written from SQL, checked before others see them.

One worker per table, under a lease. A checkpoint that fails is tried again later and never holds
a commit back: the table can be read without it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from deltasql.crash import crash_point
from deltasql.data.read_ahead import in_order
from deltasql.errors import CheckpointError
from deltasql.events import CheckpointWritten
from deltasql.log.checkpoint_writer import cut
from deltasql.metastore.leases import Lease
from deltasql.metastore.log_state import RecordedFile, is_own_log
from deltasql.metastore.snapshot.checkpoint_source import CheckpointSource
from deltasql.metastore.table_row import TableRow
from deltasql.mirror.checkpoints.check import WrittenRows
from deltasql.protocol.checkpoint.layout import CheckpointShape
from deltasql.protocol.log_names import LAST_CHECKPOINT, LastCheckpoint
from deltasql.runtime.connection import Connection
from deltasql.sinks import span

if TYPE_CHECKING:
    from deltasql.log.checkpoint_writer import CheckpointFile, CheckpointWriter

Piece = tuple[str, pa.RecordBatch]

PURPOSE = "checkpoint"


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


@dataclass(slots=True)
class Checkpointer:
    """Writes checkpoints of the tables of one catalog; safe to use from many threads."""

    connection: Connection

    def due(self, row: TableRow, interval: int) -> int | None:
        """Return the version that wants a checkpoint: the newest mirrored multiple without one."""
        version = row.mirrored_through // interval * interval
        if not is_own_log(row):
            return None
        if version <= 0 or version < row.log_floor:
            return None
        newest = self.connection.log_files.newest_checkpoint(row.table_id)
        return version if newest is None or newest.version < version else None

    def write(
        self, row: TableRow, version: int, *, codec: str = "snappy", replace: bool = False
    ) -> RecordedFile | None:
        """Write the checkpoint of a mirrored version; None while another worker is at it.

        What the log has there already stays if it is right; with `replace` it goes.

        Raises:
            CheckpointError: the file did not come out right, or the log holds a wrong one.
            LeaseLostError: we were too slow and another worker has taken over.
        """
        if not row.log_floor <= version <= row.mirrored_through:
            raise CheckpointError(
                f"Version {version} of {row.full_name} is not in the log; it holds "
                f"{row.log_floor} to {row.mirrored_through}.",
                hint="Mirror the version first.",
                version=version,
            )
        lease = self.connection.leases.acquire(row.table_id, PURPOSE)
        if lease is None:
            return None
        try:
            with span("checkpoint", table=row.full_name, version=version):
                return self._write(row, version, lease, codec, replace=replace)
        finally:
            self.connection.leases.release(lease)

    def settle_hint(self, row: TableRow) -> None:
        """Let `_last_checkpoint` name the newest checkpoint that is recorded, if it lags."""
        from deltasql.log.checkpoint_writer import CheckpointWriter  # noqa: PLC0415 (pyarrow)

        newest = self.connection.log_files.newest_checkpoint(row.table_id)
        if newest is not None and is_own_log(row):
            CheckpointWriter(self.connection.store_of(row)).move_hint(_hint(newest))

    def hint_again(self, row: TableRow) -> None:
        """Let `_last_checkpoint` name the newest checkpoint that is recorded, or be gone."""
        from deltasql.log.checkpoint_writer import CheckpointWriter  # noqa: PLC0415 (pyarrow)

        store = self.connection.store_of(row)
        newest = self.connection.log_files.newest_checkpoint(row.table_id)
        if newest is None:
            store.delete(LAST_CHECKPOINT)
        else:
            CheckpointWriter(store).put_hint(_hint(newest))

    def _write(
        self, row: TableRow, version: int, lease: Lease, codec: str, *, replace: bool
    ) -> RecordedFile:
        from deltasql.log.checkpoint_writer import CheckpointWriter  # noqa: PLC0415 (pyarrow)
        from deltasql.metastore.snapshot.checkpoint_source import CheckpointSource  # noqa: PLC0415 (pyarrow)
        from deltasql.mirror.checkpoints.check import WrittenRows, require_written  # noqa: PLC0415 (pyarrow)
        from deltasql.protocol.checkpoint.layout import CheckpointShape  # noqa: PLC0415 (pyarrow)

        started = self.connection.clock.monotonic()
        store = self.connection.store_of(row)
        self.connection.ownership.ensure(row, store)
        source = CheckpointSource(self.connection.metastore.snapshot(row.table_id, version=version))
        shape = CheckpointShape(source.snapshot.metadata, source.snapshot.protocol)
        writer = CheckpointWriter(store, codec)
        written = WrittenRows(writer.group_rows)
        with (
            closing(checkpoint_rows(source, shape, written)) as rows,
            writer.spool(version, shape.schema, self._kept_alive(rows, lease)) as (file, path),
        ):
            require_written(file, path, source, written)
            crash_point("checkpoint-verified")
            done = self._put(writer, source, (file, path), lease, replace=replace)
        self._record(lease, done)
        writer.move_hint(_hint(done))
        self.connection.emit(
            CheckpointWritten(
                table_id=row.table_id,
                table=row.full_name,
                version=version,
                key=done.key,
                latency_ms=(self.connection.clock.monotonic() - started) * 1000,
                files=done.num_adds or 0,
            )
        )
        return done

    def _put(
        self,
        writer: CheckpointWriter,
        source: CheckpointSource,
        spooled: tuple[CheckpointFile, Path],
        lease: Lease,
        *,
        replace: bool,
    ) -> RecordedFile:
        from deltasql.mirror.checkpoints.check import require_equal  # noqa: PLC0415 (pyarrow)

        file, path = spooled
        self.connection.leases.renew(lease)
        if writer.write_checkpoint(file, path, replace=replace):
            return recorded(file)
        # Ours from an attempt that died, or a stranger's: only its content tells.
        with writer.fetch(file.version, file.digest) as (found, there):
            if found.digest != file.digest:
                require_equal(found, there, source)
            return recorded(found)

    def _record(self, lease: Lease, done: RecordedFile) -> None:
        now = self.connection.now_ms()
        with self.connection.metastore.database.write() as tx:
            self.connection.leases.require(tx, lease)
            self.connection.log_files.record(tx, lease.table_id, done)
            tx.execute("mark_checkpoint", table_id=lease.table_id, version=done.version, now=now)
            crash_point("before-checkpoint-record")
        crash_point("after-checkpoint-record")

    def _kept_alive(self, rows: Iterator[pa.Table], lease: Lease) -> Iterator[pa.Table]:
        """Pass the rows on and renew the lease while they take their time."""
        renewed = self.connection.clock.monotonic()
        for table in rows:
            yield table
            if (
                self.connection.clock.monotonic() - renewed
            ) * 1000 > self.connection.leases.ttl_ms / 3:
                self.connection.leases.renew(lease)
                renewed = self.connection.clock.monotonic()


def recorded(file: CheckpointFile) -> RecordedFile:
    """Return what the catalog keeps of a checkpoint."""
    return RecordedFile(
        file.key, file.version, "checkpoint", file.size, file.digest, file.rows, file.adds
    )


def _hint(done: RecordedFile) -> LastCheckpoint:
    return LastCheckpoint(done.version, done.num_rows or 0, done.size, done.num_adds)
