"""The numbers of a Parquet footer: row groups and where their columns lie, held against limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, BinaryIO

from deltasql.log.thrift_compact import Compact, Struct

MAGIC = b"PAR1"
TAIL = 8
_MEGABYTE = 1024 * 1024
_MOST_BYTES = 32 * _MEGABYTE
# Of honest files each row takes bytes: it has a path of its own. And no codec is so good.
_FREE_ROWS, _ROWS_PER_BYTE = 100_000, 4
FREE_BYTES, MOST_RATIO = 64 * _MEGABYTE, 1_000
_MOST_VALUES = 20_000_000
_MOST_CODEC = 7


@dataclass(frozen=True, slots=True)
class Chunk:
    """One column of a row group: where it lies, what it is packed with, how many values it has."""

    start: int
    length: int
    values: int
    codec: int
    encodings: frozenset[int]


@dataclass(frozen=True, slots=True)
class Group:
    """A row group: its rows, and its columns in the order of the schema's leaves."""

    rows: int
    size: int
    columns: tuple[Struct, ...]

    def chunk(self, number: int, *, repeats: bool) -> Chunk:
        """Return a column.

        Raises:
            ValueError: its numbers cannot be right.
        """
        told = self.columns[number].get(3) if number < len(self.columns) else None
        if not isinstance(told, dict) or 1 in self.columns[number]:
            raise ValueError("a row group lacks a column")
        values, unpacked, length = (_whole(told, field) for field in (5, 6, 7))
        start = min(place for place in (_whole(told, 9), told.get(11)) if place)
        if start < len(MAGIC) or length < 0 or start + length > self.size - TAIL:
            raise ValueError("a column lies outside of the file")
        if unpacked > FREE_BYTES + MOST_RATIO * length:
            raise ValueError(f"a column announces {unpacked} bytes")
        if not (0 <= values <= _MOST_VALUES if repeats else values == self.rows):
            raise ValueError(f"a column announces {values} values in {self.rows} rows")
        codec = _whole(told, 4)
        if not 0 <= codec <= _MOST_CODEC:
            raise ValueError("a column is packed in an unknown way")
        return Chunk(start, length, values, codec, frozenset(told.get(2) or ()))


def footer_place(file: BinaryIO, size: int) -> tuple[int, int]:
    """Return where the footer begins and how long it is, by the end of the file.

    Raises:
        ValueError: it is no Parquet file, or announces a footer that cannot be.
    """
    if size < len(MAGIC) + TAIL:
        raise ValueError("it is too short" if size else "it is empty")
    file.seek(size - TAIL)
    tail = file.read(TAIL)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC:
        raise ValueError("it does not end as a Parquet file does")
    if length > min(_MOST_BYTES, size - TAIL - len(MAGIC)):
        raise ValueError(f"its footer announces {length} bytes")
    return size - TAIL - length, length


def read_groups(footer: bytes, size: int) -> tuple[Group, ...]:
    """Return the row groups that a footer names.

    Raises:
        ValueError: the footer is damaged, or names more rows than the file can hold.
    """
    try:
        told = Compact(footer).struct()
    except IndexError as error:
        raise ValueError("its footer ends early") from error
    groups = tuple(_group(one, size) for one in _structs(told.get(4)))
    if sum(group.rows for group in groups) != _whole(told, 3):
        raise ValueError("the rows of its groups are not those of the file")
    return groups


def _group(told: Struct, size: int) -> Group:
    rows = _whole(told, 3)
    if not 0 <= rows <= _FREE_ROWS + _ROWS_PER_BYTE * size:
        raise ValueError(f"a row group announces {rows} rows")
    return Group(rows, size, _structs(told.get(1)))


def _structs(told: Any) -> tuple[Struct, ...]:
    if not isinstance(told, list) or not all(isinstance(one, dict) for one in told):
        raise ValueError("its footer lacks a list")
    return tuple(told)


def _whole(told: Struct, field: int) -> int:
    value = told.get(field)
    if type(value) is not int:
        raise ValueError("its footer lacks a number")
    return value
