"""Child processes that read tasks, and the messages between them and us.

A process that does tasks of an import, so that long logs are read on more than one core. Both
ends of its pipes: a frame is a length, a letter and a body. It only reads, so it may be killed at
any time, and it ends by itself when whoever asked is gone. A process of the interpreter's own
pool would run the caller's main module again.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from importlib.abc import MetaPathFinder
from typing import IO, Any, BinaryIO, Self, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.ipc

from deltasql.errors import DeltaSqlError, TableImportError
from deltasql.imports.load.window import (
    ADD_SCHEMA,
    DOMAIN_SCHEMA,
    EVENT_SCHEMA,
    REMOVE_SCHEMA,
    TXN_SCHEMA,
    VERSION_SCHEMA,
    VersionWindow,
)
from deltasql.imports.read.tasks import LogReader, Rows, StatePart, Task
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

_FRAME_LENGTH = 8
_PICKLE, _ROWS = b"P", b"R"
_PIPE_BYTES = 1024 * 1024

# Windows come and go: memory that is given back each time costs a tenth of the reader's time.
_KEPT_BYTES = str(256 * 1024 * 1024)
_MEMORY = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_MMAP_THRESHOLD_": _KEPT_BYTES,
    "MALLOC_TRIM_THRESHOLD_": _KEPT_BYTES,
}


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


_COMMAND = "from deltasql.imports.engines.child_process import serve; serve()"


class ReaderProcess:
    """The near end: does one task at a time."""

    def __init__(self, reader: LogReader) -> None:
        path = os.pathsep.join(map(os.path.abspath, sys.path))
        try:
            self._process = subprocess.Popen(  # noqa: S603 (this interpreter, our own words)
                [sys.executable, "-P", "-c", _COMMAND],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **_MEMORY, "PYTHONPATH": path},
            )
        except OSError as error:
            raise TableImportError(f"A process to read the log does not start: {error}.") from error
        with suppress(OSError, AttributeError):  # only faster, and only on Linux
            fcntl.fcntl(_pipe(self._process.stdout), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._ask(reader)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def do(self, task: Task) -> Rows:
        """Return what a task is to read.

        Raises:
            DeltaSqlError: what the task said.
            TableImportError: the process has ended.
        """
        self._ask(task)
        try:
            pipe = _pipe(self._process.stdout)
            kind, length = _read_head(pipe)
            if kind == _ROWS:
                return read_rows(partial(_read, pipe), length)
            failure = pickle.loads(_read(pipe, length))  # noqa: S301 (our own)
        except (EOFError, OSError) as error:
            raise self._ended() from error
        assert isinstance(failure, DeltaSqlError)  # noqa: S101 (nothing else is sent so)
        raise failure

    def close(self) -> None:
        """End the process, whatever it is at."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                _pipe(pipe).close()
            except BrokenPipeError:  # a question that it had not read
                continue

    def _ask(self, what: object) -> None:
        try:
            _write_frame(_pipe(self._process.stdin), _PICKLE, [pickle.dumps(what)])
        except OSError as error:
            raise self._ended() from error

    def _ended(self) -> TableImportError:
        code = self._process.wait()
        return TableImportError(
            f"A process that read the log has ended with exit code {code}.",
            hint="It may have been short of memory. What was loaded stays: run it again with "
            "`resume=True`.",
        )


def serve() -> None:
    """The far end: do tasks until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asked decides
    sys.meta_path.insert(0, _NoPandas())
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not break a frame
    try:
        reader: LogReader = _read_pickle(sys.stdin.buffer)
        store = reader.open_store()
        reader = replace(reader, open_store=lambda: store)
        while True:
            _write_frame(answers, *_answer(reader, sys.stdin.buffer))
    except (EOFError, BrokenPipeError):
        os._exit(0)  # nobody is left to flush for


class _NoPandas(MetaPathFinder):
    """Arrow would load pandas, for half a second, to see whether a list is perhaps a series."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def _answer(reader: LogReader, questions: BinaryIO) -> tuple[bytes, list[Packed]]:
    task: Task = _read_pickle(questions)
    try:
        return _ROWS, pack_parts(reader(task))
    except DeltaSqlError as error:
        return _PICKLE, [pickle.dumps(error)]
    except Exception as error:  # noqa: BLE001 (it may be one that cannot travel)
        failed = TableImportError(f"A task failed: {type(error).__name__}: {error}.")
        return _PICKLE, [pickle.dumps(failed)]


def _read_head(pipe: BinaryIO) -> tuple[bytes, int]:
    length = int.from_bytes(_read(pipe, _FRAME_LENGTH), "big")
    return _read(pipe, 1), length


def _read_pickle(pipe: BinaryIO) -> Any:
    _, length = _read_head(pipe)
    return pickle.loads(_read(pipe, length))  # noqa: S301 (our own)


def _read(pipe: BinaryIO, count: int) -> bytes:
    found = pipe.read(count)
    if len(found) < count:
        raise EOFError
    return found


def _write_frame(pipe: BinaryIO, kind: bytes, parts: list[Packed]) -> None:
    length = sum(len(memoryview(part)) for part in parts)
    pipe.write(length.to_bytes(_FRAME_LENGTH, "big") + kind)
    pipe.writelines(parts)
    pipe.flush()


def _pipe(pipe: IO[bytes] | None) -> BinaryIO:
    assert pipe is not None  # noqa: S101 (asked for when the process was started)
    return pipe  # type: ignore[return-value]
