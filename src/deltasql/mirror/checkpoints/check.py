"""Are a checkpoint's rows those of SQL? Compared by digests of rows.

Digests of a checkpoint's files, by row group and kind: what SQL gave against what is in a file. A
file's row is known by its place, one number of its own and its vector. Equal rows in equal order
give equal digests, in whatever pieces they come.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltasql.errors import CheckpointError
from deltasql.log.checkpoint_writer import CheckpointFile, read_footer, read_group, read_rows
from deltasql.metastore.snapshot.checkpoint_source import CheckpointSource
from deltasql.protocol.checkpoint.layout import CheckpointShape

# The number of its own that SQL has of a file of each kind.
IN_SQL = {"add": "size", "remove": "deletion_timestamp"}
ROW = pa.schema([("path", pa.string()), ("number", pa.int64()), ("dv_id", pa.string())])
_OFFSET, _NUMBER = 4, 8  # bytes of one in Arrow

_IN_FILE = {"add": "size", "remove": "deletionTimestamp"}

# More threads than these take memory and save little time.
_THREADS = 2


@dataclass(frozen=True, slots=True)
class Digest:
    """So many rows, and what they are."""

    rows: int
    words: tuple[str, ...]


class RowsDigest:
    """The digest of one kind's rows in one row group, as they come."""

    def __init__(self) -> None:
        self._rows = 0
        self._parts = [hashlib.sha256() for _ in range(8)]

    def take(self, rows: pa.RecordBatch) -> None:
        """Add rows of the columns path, number and dv_id."""
        if not rows.num_rows:
            return
        self._rows += rows.num_rows
        path, number, dv_id = (rows.column(name) for name in ROW.names)
        streams = [*_text(path), *_number(number), *_text(dv_id)]
        for part, content in zip(self._parts, streams, strict=True):
            part.update(content)

    def value(self) -> Digest:
        """Return the digest of all rows so far."""
        return Digest(self._rows, tuple(part.hexdigest() for part in self._parts))


@dataclass(slots=True)
class WrittenRows:
    """What SQL gave for a checkpoint, noted while its row groups are written."""

    group_rows: int
    _row: int = 0
    _found: dict[tuple[int, str], RowsDigest] = field(default_factory=dict)

    def skip(self, rows: int) -> None:
        """Count rows that are no files."""
        self._row += rows

    def take(self, kind: str, files: pa.RecordBatch) -> None:
        """Note the next files, as SQL has them."""
        names = ["path", IN_SQL[kind], "dv_id"]
        rows = pa.RecordBatch.from_arrays([files.column(name) for name in names], schema=ROW)
        while rows.num_rows:
            group, used = divmod(self._row, self.group_rows)
            part = rows.slice(0, self.group_rows - used)
            self._found.setdefault((group, kind), RowsDigest()).take(part)
            self._row += part.num_rows
            rows = rows.slice(part.num_rows)

    def digests(self) -> dict[tuple[int, str], Digest]:
        """Return the digest of each group and kind that has rows."""
        return {place: rows.value() for place, rows in self._found.items()}


def _text(column: pa.Array) -> tuple[Any, Any, Any]:
    """Return which are null, the lengths, and the texts one after another."""
    valid = _validity(column)
    plain = column.fill_null("") if column.null_count else column
    lengths = pc.binary_length(plain)
    _, offsets, data = plain.buffers()
    ends = memoryview(offsets).cast("i")
    first, last = ends[plain.offset], ends[plain.offset + len(plain)]
    texts = memoryview(data)[first:last] if data is not None else b""
    return valid, _slots(lengths, _OFFSET), texts


def _number(column: pa.Array) -> tuple[Any, Any]:
    plain = column.fill_null(0) if column.null_count else column
    return _validity(column), _slots(plain, _NUMBER)


def _validity(column: pa.Array) -> Any:
    """One byte for each row: bits could not be cut anywhere."""
    if not column.null_count:
        return bytes(len(column))
    return _slots(column.is_null().cast(pa.int8()), 1)


def _slots(column: pa.Array, width: int) -> Any:
    first = column.offset * width
    return memoryview(column.buffers()[1])[first : first + len(column) * width]


def require_equal(file: CheckpointFile, path: Path, source: CheckpointSource) -> None:
    """Compare a checkpoint file with the state that SQL has: all rows, files in their order.

    Raises:
        CheckpointError: says what differs, or that a part cannot be read.
    """
    head: list[pa.RecordBatch] = []
    with ExitStack() as stack:
        expected = {}
        for kind in IN_SQL:
            files = stack.enter_context(closing(_in_sql(source, kind)))
            expected[kind] = _Expected(file, kind, files)
        for batch in read_rows(path, file.version):
            by_kind, rest = _split(batch)
            for kind, rows in by_kind.items():
                expected[kind].take(rows)
            head.append(rest)
        for rows in expected.values():
            rows.finish()
    _require_head(file, head, source)


def _in_sql(source: CheckpointSource, kind: str) -> Generator[pa.RecordBatch, None, None]:
    """Nothing is opened before the first row is wanted: an idle read may be cut off."""
    columns = ("path", IN_SQL[kind], "dv_id")
    with source.read() as read:
        yield from read.adds(columns) if kind == "add" else read.removes(columns)


def require_written(
    file: CheckpointFile, path: Path, source: CheckpointSource, written: WrittenRows
) -> None:
    """Compare a checkpoint that was just written with what SQL gave for it: all rows, in order.

    Raises:
        CheckpointError: says what differs, or that a part cannot be read.
    """
    footer = read_footer(path, file.version)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="deltasql-checkpoint") as pool:
        read = partial(_read_group, path, file.version, footer)
        groups = list(pool.map(read, range(footer.num_row_groups)))
    found = {(n, kind): d for n, group in enumerate(groups) for kind, d in group.digests.items()}
    wanted = written.digests()
    for kind in IN_SQL:
        there, given = _of_kind(found, kind), _of_kind(wanted, kind)
        rows, needed = (sum(d.rows for d in each.values()) for each in (there, given))
        if there != given:
            words = "other" if rows == needed else "more" if rows > needed else "fewer"
            raise _differs(file, f"{words} rows of {kind} than SQL has")
    _require_head(file, [batch for group in groups for batch in group.head], source)


@dataclass(frozen=True, slots=True)
class _Group:
    digests: dict[str, Digest]
    head: list[pa.RecordBatch]


def _read_group(path: Path, version: int, footer: pq.FileMetaData, number: int) -> _Group:
    digests: dict[str, RowsDigest] = {}
    head: list[pa.RecordBatch] = []
    for batch in read_group(path, version, footer, number):
        by_kind, rest = _split(batch)
        for kind, rows in by_kind.items():
            digests.setdefault(kind, RowsDigest()).take(rows)
        head.append(rest)
    return _Group({kind: rows.value() for kind, rows in digests.items()}, head)


def _of_kind(digests: dict[tuple[int, str], Digest], kind: str) -> dict[int, Digest]:
    return {group: digest for (group, of), digest in digests.items() if of == kind}


def _split(batch: pa.RecordBatch) -> tuple[dict[str, pa.RecordBatch], pa.RecordBatch]:
    """Return the files of each kind as they are compared, and the rows that hold none."""
    found = {}
    is_other = pa.repeat(pa.scalar(value=True), batch.num_rows)
    for kind in _IN_FILE:
        column = batch.column(kind)
        if column.null_count == len(column):
            continue
        rows = column.drop_null() if column.null_count else column
        found[kind] = _rows(rows, kind)
        is_other = pc.and_(is_other, column.is_null())
    return found, batch.filter(is_other)


class _Expected:
    """The files that SQL has, in order, against which those of a checkpoint are held."""

    def __init__(self, file: CheckpointFile, kind: str, batches: Iterator[pa.RecordBatch]) -> None:
        self._file = file
        self._kind = kind
        self._batches = batches
        self._rest = ROW.empty_table()

    def take(self, found: pa.RecordBatch) -> None:
        """Compare the next rows of the checkpoint."""
        while self._rest.num_rows < found.num_rows:
            batch = next(self._batches, None)
            if batch is None:
                raise _differs(self._file, f"more rows of {self._kind} than SQL has")
            named = pa.Table.from_arrays(batch.columns, schema=ROW)
            self._rest = pa.concat_tables([self._rest, named])
        wanted = self._rest.slice(0, found.num_rows)
        self._rest = self._rest.slice(found.num_rows)
        if not pa.Table.from_batches([found]).equals(wanted):
            raise _differs(self._file, f"other rows of {self._kind} than SQL has")

    def finish(self) -> None:
        """Make sure that SQL has no more."""
        if self._rest.num_rows or any(batch.num_rows for batch in self._batches):
            raise _differs(self._file, f"fewer rows of {self._kind} than SQL has")


def _rows(found: pa.StructArray, kind: str) -> pa.RecordBatch:
    path, number, vector = (
        pc.struct_field(found, name) for name in ("path", _IN_FILE[kind], "deletionVector")
    )
    return pa.RecordBatch.from_arrays([path, number, _ids(vector)], schema=ROW)


def _ids(vectors: pa.StructArray) -> pa.Array:
    if vectors.null_count == len(vectors):
        return pa.repeat(pa.scalar("", pa.string()), len(vectors))
    return pa.array(
        ["" if vector is None else _id(vector) for vector in vectors.to_pylist()], pa.string()
    )


def _id(vector: dict[str, object]) -> str:
    at = "" if vector["offset"] is None else f"@{vector['offset']}"
    return f"{vector['storageType']}{vector['pathOrInlineDv']}{at}"


def _require_head(
    file: CheckpointFile, batches: list[pa.RecordBatch], source: CheckpointSource
) -> None:
    snapshot = source.snapshot
    shape = CheckpointShape(snapshot.metadata, snapshot.protocol)
    wanted = shape.head(snapshot.protocol, snapshot.metadata, source.txns(), snapshot.domains())
    found = [row for batch in batches for row in batch.to_pylist()]
    if found != wanted.to_pylist():
        raise _differs(file, "another protocol, metadata, txn or domain than SQL has")


def _differs(file: CheckpointFile, what: str) -> CheckpointError:
    return CheckpointError(f"{file.key} holds {what}.", key=file.key, version=file.version)
