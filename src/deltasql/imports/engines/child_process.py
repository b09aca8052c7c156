"""The rows of a task as bytes, for the way from one process to another: Arrow with a small head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.ipc

from deltasql.catalog.bulk_rows import (
    ADD_SCHEMA,
    DOMAIN_SCHEMA,
    EVENT_SCHEMA,
    REMOVE_SCHEMA,
    TXN_SCHEMA,
    VERSION_SCHEMA,
    VersionWindow,
)
from deltasql.errors import TableImportError
from deltasql.importer.tasks import Rows, StatePart
from deltasql.protocol.actions import Metadata, Protocol

_MAGIC = b"DSI1"
_LENGTH = 4
_ALIGNED = 8
_SCHEMAS = {
    "versions": VERSION_SCHEMA,
    "adds": ADD_SCHEMA,
    "removes": REMOVE_SCHEMA,
    "txns": TXN_SCHEMA,
    "domains": DOMAIN_SCHEMA,
    "events": EVENT_SCHEMA,
}
_KINDS: dict[str, type[Metadata | Protocol]] = {
    Metadata.kind: Metadata,
    Protocol.kind: Protocol,
}
_CODECS = ("lz4", "zstd")
Packed: TypeAlias = bytes | memoryview | pa.Buffer


class _Change(msgspec.Struct, array_like=True):
    version: int
    kind: str
    body: msgspec.Raw


class _Part(msgspec.Struct, array_like=True):
    name: str
    rows: int
    bytes: int


class _Head(msgspec.Struct):
    """`numbers`: first and last version of a window; number and version of a part of a state."""

    is_window: bool
    numbers: tuple[int, int]
    parts: list[_Part]
    changes: list[_Change] = []


def pack(rows: Rows) -> bytes:
    """Return all tables and changes of a task's rows as bytes, compressed for a network."""
    return b"".join(pack_parts(rows, _codec()))


def pack_parts(rows: Rows, codec: str | None = None) -> list[Packed]:
    """Return the same bytes in parts; without a codec for a pipe on one machine."""
    names = [field.name for field in fields(rows) if field.name in _SCHEMAS]
    tables = [(name, getattr(rows, name)) for name in names]
    streams = [_write(table, _SCHEMAS[name], codec) for name, table in tables]
    parts = [
        _Part(name, table.num_rows, stream.size)
        for (name, table), stream in zip(tables, streams, strict=True)
    ]
    if isinstance(rows, VersionWindow):
        head = _Head(True, (rows.first, rows.last), parts, _changes(rows))
    else:
        head = _Head(False, (rows.number, rows.version), parts)
    encoded = msgspec.msgpack.encode(head)
    begin = _MAGIC + len(encoded).to_bytes(_LENGTH, "big") + encoded
    return [begin + bytes(_padding(len(begin))), *streams]


def unpack(packed: Packed) -> Rows:
    """Return the rows that were packed.

    Raises:
        TableImportError: these are not such bytes, or not all of them.
    """
    view = memoryview(packed)
    start = 0

    def read(count: int) -> memoryview:
        nonlocal start
        start += count
        return view[start - count : start]

    return read_rows(read, len(view))


def read_rows(read: Callable[[int], Packed], size: int) -> Rows:
    """Return the rows that were packed, from a source that gives their bytes in order.

    Each table refers to the bytes of its own stream only: what is kept of a window, its versions,
    does not keep the rest in memory.

    Raises:
        TableImportError: these are not such bytes, or not all of them.
    """
    try:
        if memoryview(read(len(_MAGIC))) != _MAGIC:
            raise ValueError("they begin otherwise")  # noqa: TRY301
        length = int.from_bytes(read(_LENGTH), "big")
        head = msgspec.msgpack.decode(read(length), type=_Head)
        begin = len(_MAGIC) + _LENGTH + length
        padding = _padding(begin)
        read(padding)
        if begin + padding + sum(part.bytes for part in head.parts) != size:
            raise ValueError("there are not as many of them as their head says")  # noqa: TRY301
        tables = {part.name: _table(read(part.bytes), part) for part in head.parts}
        changes = tuple((c.version, _change(c)) for c in head.changes)
    except (ValueError, KeyError, OSError, msgspec.MsgspecError, pa.ArrowException) as error:
        raise TableImportError(
            f"The {size} bytes that a task left are not its rows: {error}.",
            hint="Run the import again with `resume=True`; see that all workers have one version.",
        ) from error
    if head.is_window:
        return VersionWindow(*head.numbers, **tables, changes=changes)
    return StatePart(*head.numbers, **tables)


def _changes(window: VersionWindow) -> list[_Change]:
    return [
        _Change(version, change.kind, msgspec.Raw(msgspec.msgpack.encode(change)))
        for version, change in window.changes
    ]


def _change(packed: _Change) -> Metadata | Protocol:
    return msgspec.msgpack.decode(packed.body, type=_KINDS[packed.kind])


def _padding(length: int) -> int:
    """Return how many bytes to add, so that Arrow finds its numbers at aligned places."""
    return -length % _ALIGNED


def _codec() -> str | None:
    return next((name for name in _CODECS if pa.Codec.is_available(name)), None)


def _write(table: pa.Table, schema: pa.Schema, codec: str | None) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _table(stream: Packed, part: _Part) -> pa.Table:
    table = pa.ipc.open_stream(pa.py_buffer(stream)).read_all()
    if table.num_rows != part.rows or table.schema != _SCHEMAS[part.name]:
        raise ValueError(f"the {part.name} are others than their head says")
    return table
