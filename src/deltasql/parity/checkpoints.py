"""Is a checkpoint of ours what SQL has at its version? Every page is read, every row compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.catalog.checkpoint_source import CheckpointSource
from deltasql.errors import CheckpointError
from deltasql.log.checkpoint import CheckpointFile, read_rows
from deltasql.protocol.checkpoint import CheckpointShape

# What a file's row is compared by: its place, one number of its own, its vector.
_IN_FILE = {"add": "size", "remove": "deletionTimestamp"}
_IN_SQL = {"add": "size", "remove": "deletion_timestamp"}
_ROW = pa.schema([("path", pa.string()), ("number", pa.int64()), ("dv_id", pa.string())])


def require_equal(file: CheckpointFile, path: Path, source: CheckpointSource) -> None:
    """Compare a checkpoint file with the state that SQL has: all rows, files in their order.

    Raises:
        CheckpointError: says what differs, or that a part cannot be read.
    """
    expected = {
        "add": _Expected(file, "add", source.adds(("path", _IN_SQL["add"], "dv_id"))),
        "remove": _Expected(file, "remove", source.removes(("path", _IN_SQL["remove"], "dv_id"))),
    }
    head: list[pa.RecordBatch] = []
    for batch in read_rows(path, file.version):
        is_file = pa.repeat(pa.scalar(value=False), batch.num_rows)
        for kind, rows in expected.items():
            holds = pc.is_valid(batch.column(kind))
            rows.take(batch.column(kind).filter(holds))
            is_file = pc.or_(is_file, holds)
        head.append(batch.filter(pc.invert(is_file)))
    for rows in expected.values():
        rows.finish()
    _require_head(file, pa.Table.from_batches(head), source)


class _Expected:
    """The files that SQL has, in order, against which those of a checkpoint are held."""

    def __init__(self, file: CheckpointFile, kind: str, batches: Iterator[pa.RecordBatch]) -> None:
        self._file = file
        self._kind = kind
        self._batches = batches
        self._rest = _ROW.empty_table()

    def take(self, found: pa.StructArray) -> None:
        """Compare the next rows of the checkpoint."""
        while self._rest.num_rows < len(found):
            batch = next(self._batches, None)
            if batch is None:
                raise _differs(self._file, f"more rows of {self._kind} than SQL has")
            named = pa.Table.from_arrays(batch.columns, schema=_ROW)
            self._rest = pa.concat_tables([self._rest, named])
        wanted = self._rest.slice(0, len(found)).combine_chunks()
        self._rest = self._rest.slice(len(found))
        if not _rows(found, self._kind).equals(wanted):
            raise _differs(self._file, f"other rows of {self._kind} than SQL has")

    def finish(self) -> None:
        """Make sure that SQL has no more."""
        if self._rest.num_rows or any(batch.num_rows for batch in self._batches):
            raise _differs(self._file, f"fewer rows of {self._kind} than SQL has")


def _rows(found: pa.StructArray, kind: str) -> pa.Table:
    path, number, vector = (
        pc.struct_field(found, name) for name in ("path", _IN_FILE[kind], "deletionVector")
    )
    return pa.Table.from_arrays([path, number, _ids(vector)], schema=_ROW).combine_chunks()


def _ids(vectors: pa.StructArray) -> pa.Array:
    if vectors.null_count == len(vectors):
        return pa.repeat(pa.scalar("", pa.string()), len(vectors))
    return pa.array(
        ["" if vector is None else _id(vector) for vector in vectors.to_pylist()], pa.string()
    )


def _id(vector: dict[str, object]) -> str:
    at = "" if vector["offset"] is None else f"@{vector['offset']}"
    return f"{vector['storageType']}{vector['pathOrInlineDv']}{at}"


def _require_head(file: CheckpointFile, found: pa.Table, source: CheckpointSource) -> None:
    snapshot = source.snapshot
    shape = CheckpointShape(snapshot.metadata, snapshot.protocol)
    wanted = shape.head(snapshot.protocol, snapshot.metadata, source.txns(), snapshot.domains())
    if found.to_pylist() != wanted.to_pylist():
        raise _differs(file, "another protocol, metadata, txn or domain than SQL has")


def _differs(file: CheckpointFile, what: str) -> CheckpointError:
    return CheckpointError(f"{file.key} holds {what}.", key=file.key, version=file.version)
