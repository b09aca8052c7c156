"""A process that does tasks of an import, so that long logs are read on more than one core.

Both ends of its pipes: a frame is a length, a letter and a body. It only reads, so it may be
killed at any time, and it ends by itself when whoever asked is gone. A process of the interpreter's
own pool would run the caller's main module again.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.abc import MetaPathFinder
from typing import IO, Any, BinaryIO, Self

from deltasql.errors import DeltaSqlError, TableImportError
from deltasql.importer.packing import Packed, pack_parts, read_rows
from deltasql.importer.tasks import LogReader, Rows, Task

_LENGTH = 8
_PICKLE, _ROWS = b"P", b"R"
_PIPE_BYTES = 1024 * 1024
# Windows come and go: memory that is given back each time costs a tenth of the reader's time.
_KEPT_BYTES = str(256 * 1024 * 1024)
_MEMORY = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_MMAP_THRESHOLD_": _KEPT_BYTES,
    "MALLOC_TRIM_THRESHOLD_": _KEPT_BYTES,
}
_COMMAND = "from deltasql.importer.reader_process import serve; serve()"


class ReaderProcess:
    """The near end: does one task at a time."""

    def __init__(self, reader: LogReader) -> None:
        path = os.pathsep.join(map(os.path.abspath, sys.path))
        try:
            self._process = subprocess.Popen(  # noqa: S603 (this interpreter, our own words)
                [sys.executable, "-c", _COMMAND],
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
    length = int.from_bytes(_read(pipe, _LENGTH), "big")
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
    pipe.write(length.to_bytes(_LENGTH, "big") + kind)
    pipe.writelines(parts)
    pipe.flush()


def _pipe(pipe: IO[bytes] | None) -> BinaryIO:
    assert pipe is not None  # noqa: S101 (asked for when the process was started)
    return pipe  # type: ignore[return-value]
