"""Digests of a checkpoint's files, by row group and kind: what SQL gave against what is in a file.

A file's row is known by its place, one number of its own and its vector. Equal rows in equal order
give equal digests, in whatever pieces they come.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# The number of its own that SQL has of a file of each kind.
IN_SQL = {"add": "size", "remove": "deletion_timestamp"}
ROW = pa.schema([("path", pa.string()), ("number", pa.int64()), ("dv_id", pa.string())])
_OFFSET, _NUMBER = 4, 8  # bytes of one in Arrow


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
