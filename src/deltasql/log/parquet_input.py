"""Foreign Parquet files opened with distrust: sizes and names are checked before any value is read.

A damaged or hostile file can end the process that reads it, or unpack to gigabytes. In the child
both are a verdict on the file. One child reads many files; of a remote object the chosen columns
are copied once to a local file.

Names in a checkpoint's schema: a footer has no checksum, so a name may be damaged unseen. A
column of an unknown name is passed over, as the protocol wants. But where a known name is missing
and one that a single flipped bit makes of it stands instead, that is what happened: to pass it
over would lose a deletion vector, or a table's whole list of features.
"""

from __future__ import annotations

import atexit
import io
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

import msgspec
import pyarrow as pa

from deltasql.errors import TableImportError
from deltasql.forks import fork_count, start_afresh_after_fork
from deltasql.log.parquet_child import (
    CLOSE,
    DONE,
    FAILED,
    FILE,
    GROUP,
    NEXT,
    PING,
    READY,
    Opened,
    Wanted,
    decode,
    encode,
    receive,
    send,
)
from deltasql.protocol.actions import (
    Add,
    CheckpointMetadata,
    DeletionVector,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    Remove,
    Sidecar,
    Txn,
)
from deltasql.protocol.checkpoint.decode import PARSED
from deltasql.storage.port import ObjectStore

_Names: TypeAlias = Mapping[str, Any]
_STATS = ("numRecords", "minValues", "maxValues", "nullCount", "tightBounds")
_TWINS: _Names = {PARSED["partitionValues"]: {}, PARSED["stats"]: {name: {} for name in _STATS}}

_MEGABYTE = 1024 * 1024
_PIECE = 8 * _MEGABYTE
_SMALL_FILE = 16 * _MEGABYTE
_MAGIC = b"PAR1"
_TAIL = 8
_MAX_FOOTER = 32 * _MEGABYTE
_ANSWER_S = 300.0
_EXIT_S = 10.0
_IDLE_CHILDREN = 4
_COMMAND = "from deltasql.log.parquet_child import serve; serve()"
_ENVIRONMENT = {
    # the limit counts what is asked for: no pool, no memory for threads that never run
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}

# Signals from outside of the child say nothing about the file.
_FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT}


def _fields(kind: type[msgspec.Struct], **nested: _Names) -> _Names:
    return {field.encode_name: {} for field in msgspec.structs.fields(kind)} | nested


_VECTOR = {**_fields(DeletionVector), "maxRowIndex": {}}
_KNOWN: _Names = {
    "add": {**_fields(Add, deletionVector=_VECTOR), **_TWINS},
    "remove": _fields(Remove, deletionVector=_VECTOR),
    "metaData": _fields(Metadata, format=_fields(Format)),
    "protocol": _fields(Protocol),
    "txn": _fields(Txn),
    "domainMetadata": _fields(DomainMetadata),
    "sidecar": _fields(Sidecar),
    "checkpointMetadata": _fields(CheckpointMetadata),
}


def require_sound_names(schema: pa.Schema) -> None:
    """Refuse a schema whose names can only come from damage.

    Raises:
        ValueError: names the column.
    """
    _check(list(schema), _KNOWN)


def _check(fields: Iterable[pa.Field], known: _Names) -> None:
    names = [field.name for field in fields]
    there = set(names)
    if len(there) < len(names):
        raise ValueError("it has two columns of one name")
    missing = [name for name in known if name not in there]
    for field in fields:
        near = [name for name in missing if field.name not in known and _is_near(name, field.name)]
        if near:
            raise ValueError(f"its column {field.name} is a damaged {near[0]}")
        if pa.types.is_struct(field.type):
            _check(list(field.type), known.get(field.name, {}))


def _is_near(name: str, other: str) -> bool:
    """Tell whether one flipped bit turns a name into the other: in a character, or in its length.

    A name that got too short is a beginning of the right one; one that got too long goes on with
    what follows it in the footer, which is no text.
    """
    if len(name) == len(other):
        return sum(mine != its for mine, its in zip(name, other, strict=True)) == 1
    return name.startswith(other) or (other.startswith(name) and not other.isprintable())


class ParquetInput:
    """An open file: its schema, its row groups, and batches of chosen columns."""

    def __init__(self, child: _Child, near: _Near) -> None:
        self._child = child
        self._near = near
        opened = decode(child.open(near.file.fileno()), Opened)
        self.schema: pa.Schema = pa.ipc.read_schema(pa.py_buffer(opened.schema))
        self.groups = opened.groups

    def batches(self, group: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group: these columns, named by their path in the schema, or all.

        A second call ends the iterator of the first.

        Raises:
            ValueError, pyarrow.ArrowException, OSError: a number or a page is wrong.
        """
        if not self.groups[group]:
            return
        wanted = Wanted(group, None if columns is None else list(columns))
        _, ranges = self._child.ask(GROUP, encode(wanted))
        for start, length in decode(ranges, list[tuple[int, int]]):
            self._near.fetch(start, length)
        while True:
            kind, body = self._child.ask(NEXT)
            if kind == DONE:
                return
            with pa.ipc.open_stream(body) as stream:
                yield stream.read_next_batch()


@contextmanager
def open_parquet(store: ObjectStore, key: str) -> Iterator[ParquetInput]:
    """Open a Parquet file of a log.

    Raises:
        ObjectNotFoundError: there is none.
        ValueError, pyarrow.ArrowException, OSError: it is no such file.
        TableImportError: no process can be started to read it, or somebody has ended it.
    """
    with ExitStack() as open_files:
        far = open_files.enter_context(store.open_input(key))
        size = far.seek(0, io.SEEK_END)
        if store.local_path(key) is not None and _has_descriptor(far):
            near = _Near(far, far, size)
        else:
            near = _Near(far, open_files.enter_context(_spool(size)), size)
        near.fetch_footer()
        with _CHILDREN.borrowed() as child:
            yield ParquetInput(child, near)


def require_readable(path: Path) -> None:
    """Read a local file whole in a child process: what passes harms this process neither.

    Raises:
        ValueError, pyarrow.ArrowException, OSError: it is no sound Parquet file.
        TableImportError: no process can be started to read it, or somebody has ended it.
    """
    with path.open("rb") as file:
        near = _Near(file, file, path.stat().st_size)
        near.fetch_footer()
        with _CHILDREN.borrowed() as child:
            opened = ParquetInput(child, near)
            for group in range(len(opened.groups)):
                for _ in opened.batches(group):
                    pass


def _spool(size: int) -> BinaryIO:
    """Return a local file for a copy that has holes where nothing is needed."""
    with _copying():
        # without a buffer: the child shares its place in the file
        file = tempfile.TemporaryFile(prefix="deltasql-checkpoint-", buffering=0)  # noqa: SIM115
        file.truncate(size)
    return cast("BinaryIO", file)


@contextmanager
def _copying() -> Iterator[None]:
    """A local copy that fails is no verdict on the file."""
    try:
        yield
    except OSError as error:
        raise TableImportError(
            f"A checkpoint cannot be copied to a temporary file: {error.strerror or error}.",
            hint="Make room in the folder for temporary files, or name another one by TMPDIR.",
        ) from error


def _has_descriptor(file: BinaryIO) -> bool:
    try:
        return file.fileno() >= 0
    except (OSError, AttributeError):
        return False


class _Near:
    """The bytes of an object in a local file: the object itself, or a sparse copy."""

    def __init__(self, far: BinaryIO, file: BinaryIO, size: int) -> None:
        self._far = far
        self.file = file
        self._size = size
        self._held: set[tuple[int, int]] = set()

    def fetch_footer(self) -> None:
        """Make the footer readable, or all of a small file.

        Raises:
            ValueError: it is no Parquet file, or announces a footer that cannot be.
        """
        if self._size < len(_MAGIC) + _TAIL:
            raise ValueError("it is too short" if self._size else "it is empty")
        self._far.seek(self._size - _TAIL)
        tail = self._far.read(_TAIL)
        length = int.from_bytes(tail[:4], "little") + _TAIL
        if tail[4:] != _MAGIC:
            raise ValueError("it does not end as a Parquet file does")
        if length > min(_MAX_FOOTER, self._size - len(_MAGIC)):
            raise ValueError(f"its footer announces {length - _TAIL} bytes")
        if self._size <= _SMALL_FILE:
            length = self._size
        self.fetch(self._size - length, length)

    def fetch(self, start: int, length: int) -> None:
        """Make a range readable in `file`."""
        whole = (0, self._size)
        if self.file is self._far or self._held & {whole, (start, length)}:
            return
        self._held.add((start, length))
        self._far.seek(start)
        while length > 0:
            piece = self._far.read(min(length, _PIECE))
            if not piece:
                raise OSError("the object ends early")
            with _copying():
                _write_at(self.file.fileno(), piece, start)
            start += len(piece)
            length -= len(piece)


def _write_at(descriptor: int, piece: bytes, place: int) -> None:
    """Write all of it: a disk that becomes full takes a part, and refuses the rest."""
    rest = memoryview(piece)
    while rest:
        count = os.pwrite(descriptor, rest, place)
        rest, place = rest[count:], place + count


class _Child:
    """A child process; it reads one file at a time, and answers each question before the next."""

    def __init__(self) -> None:
        try:
            self._channel, theirs = socket.socketpair()
        except OSError as error:
            raise _not_started(str(error)) from error
        self._channel.settimeout(_ANSWER_S)
        self._has_answered = True
        with theirs:
            self._process = self._start(theirs.fileno())
        if not self.is_ready():
            self.close()
            raise _not_started(f"it ended with exit code {self._process.returncode}")

    def _start(self, descriptor: int) -> subprocess.Popen[bytes]:
        try:
            path = os.pathsep.join(map(os.path.abspath, sys.path))
            return subprocess.Popen(  # noqa: S603 (this interpreter, our own words)
                # -P: modules in the working directory are not ours
                [sys.executable, "-P", "-c", _COMMAND, str(descriptor)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[descriptor],
                env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": path},
            )
        except (OSError, ValueError) as error:
            self._channel.close()
            raise _not_started(str(error)) from error

    def is_ready(self) -> bool:
        """Tell whether it waits for a file; one that was idle for long has ended."""
        try:
            self._channel.sendall(PING)
            return receive(self._channel)[0] == READY
        except (OSError, EOFError):
            return False

    def open(self, descriptor: int) -> memoryview:
        """Give it a file; returns what it says about it.

        Raises:
            ValueError: the file cannot be read.
            TableImportError: the process was ended from outside.
        """
        with self._judged():
            socket.send_fds(self._channel, [FILE], [descriptor])
            _, body = self._answer()
        return body

    def ask(self, kind: bytes, body: bytes = b"") -> tuple[bytes, memoryview]:
        """Ask it about its file; returns the kind of the answer, and the answer.

        Raises:
            ValueError: the file cannot be read.
            TableImportError: the process was ended from outside.
        """
        with self._judged():
            send(self._channel, kind, body)
            return self._answer()

    def forget_file(self) -> bool:
        """Make it ready for the next file; False if it cannot be used any more."""
        if not self._has_answered:
            return False
        with suppress(OSError):
            send(self._channel, CLOSE)
        return True

    def close(self) -> None:
        """End the process, whatever it is at."""
        self._channel.close()
        self._process.kill()
        self._process.wait()

    def abandon(self) -> None:
        """Leave the process to the parent of this forked process."""
        self._channel.close()
        self._process.returncode = 0

    def _answer(self) -> tuple[bytes, memoryview]:
        kind, body = receive(self._channel)
        self._has_answered = True
        if kind == FAILED:
            raise ValueError(bytes(body).decode(errors="replace"))
        return kind, body

    @contextmanager
    def _judged(self) -> Iterator[None]:
        """Turn the end of the process into a verdict on its file."""
        self._has_answered = False
        try:
            yield
        except TimeoutError as error:
            raise ValueError(f"reading it took more than {_ANSWER_S:.0f} seconds") from error
        except (OSError, EOFError) as error:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_EXIT_S)
            raise _verdict(self._process.returncode) from error


def _verdict(code: int | None) -> Exception:
    if code is not None and code != 0 and -code not in _FROM_OUTSIDE:
        reason = f"exit code {code}" if code > 0 else signal.Signals(-code).name
        return ValueError(f"it ended the process that read it ({reason})")
    return TableImportError(
        "The process that read a checkpoint was ended from outside.",
        hint="The machine may have been short of memory. Run it again.",
    )


def _not_started(reason: str) -> TableImportError:
    return TableImportError(f"A process to read checkpoints does not start: {reason}.")


class _Children:
    """The child processes of this process; idle ones wait a while for the next file."""

    def __init__(self) -> None:
        self._idle: list[_Child] = []
        self._lock = threading.Lock()
        start_afresh_after_fork(self)
        atexit.register(self.close)

    def start_afresh(self) -> None:
        """Leave the processes to the parent that started them."""
        for child in self._idle:
            child.abandon()
        self._idle = []
        self._lock = threading.Lock()

    @contextmanager
    def borrowed(self) -> Iterator[_Child]:
        """Lend a process that reads for nobody else meanwhile."""
        process = fork_count()
        child = self._idle_one() or _Child()
        try:
            yield child
        finally:
            if fork_count() == process:
                self._give_back(child)
            else:  # this process was forked inside of the block: the child is its parent's
                child.abandon()

    def _give_back(self, child: _Child) -> None:
        with self._lock:
            is_kept = len(self._idle) < _IDLE_CHILDREN and child.forget_file()
            if is_kept:
                self._idle.append(child)
        if not is_kept:
            child.close()

    def _idle_one(self) -> _Child | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                child = self._idle.pop()
            if child.is_ready():
                return child
            child.close()

    def close(self) -> None:
        """End what is idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            child.close()


_CHILDREN = _Children()
