"""The child process that reads Parquet files of foreign writers; `parquet_input` is its other end.

It gets open files through one socket. A damaged file may end it, or make it ask for more memory
than it may have: both are verdicts on the file and harm nobody else.
"""

from __future__ import annotations

import io
import os
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltasql.protocol.schema.arrow import is_textlike

# Questions and answers: a letter, the length of the body, the body.
PING, FILE, GROUP, NEXT, CLOSE = b"P", b"F", b"G", b"N", b"C"
READY, SCHEMA, RANGES, BATCH, DONE, FAILED = b"Y", b"S", b"R", b"B", b"D", b"X"
_LENGTH = 8
_IDLE_S = 30.0
Body: TypeAlias = bytes | memoryview | pa.Buffer
Columns: TypeAlias = list[str] | None  # by their paths in the schema; all of them
_STATM_DATA = 5
_MEGABYTE = 1024 * 1024
_MEMORY = 512 * _MEGABYTE  # above what the libraries take
_BATCH_ROWS = 16_384
_BATCH_BYTES = 64 * _MEGABYTE
_MAX_BATCH = 128 * _MEGABYTE
_MAX_ROW = 256 * _MEGABYTE
_FEWER = 16  # a batch that does not fit is read again as so many
# Of honest files each row takes bytes: it has a path of its own. And no codec is so good.
_FREE_ROWS, _ROWS_PER_BYTE = 100_000, 4
_FREE_BYTES, _MAX_RATIO = 64 * _MEGABYTE, 1_000
_MAX_VALUES = 20_000_000
_ROW_BYTES = 512  # even of nulls Arrow keeps offsets and bits, field by field
_OBJECT = 100  # bytes of a small value as a Python object


class Opened(msgspec.Struct, array_like=True):
    """What the child says of a file: its schema as Arrow writes it, the rows of its row groups."""

    schema: bytes
    groups: tuple[int, ...]


class Wanted(msgspec.Struct, array_like=True):
    """What the child is to read: columns of a row group, or all of them."""

    group: int
    columns: list[str] | None


T = TypeVar("T")
encode = msgspec.msgpack.encode


def decode(body: bytes | memoryview, kind: type[T]) -> T:
    """Return the body of a question or an answer.

    Raises:
        ValueError: it is none.
    """
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise ValueError(f"an answer cannot be read: {error}") from error


class _File:
    """An open file: its row groups, and the batches of one of them."""

    def __init__(self, file: io.RawIOBase) -> None:
        self._size = os.fstat(file.fileno()).st_size
        self._footer = footer = pq.read_metadata(file)
        self._leaves = [footer.schema.column(number) for number in range(len(footer.schema))]
        # repeated texts stay codes: a single row may hold millions of them
        coded = [x.path for x in self._leaves if x.max_repetition_level and _is_bytes(x)]
        self._parquet = pq.ParquetFile(
            file,
            metadata=footer,
            read_dictionary=coded,
            buffer_size=_MEGABYTE,
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
        )
        self.schema: pa.Schema = self._parquet.schema_arrow
        self.groups = [footer.row_group(n).num_rows for n in range(footer.num_row_groups)]
        for rows in self.groups:
            if not 0 <= rows <= _FREE_ROWS + _ROWS_PER_BYTE * self._size:
                raise ValueError(f"a row group announces {rows} rows")
        if sum(self.groups) != footer.num_rows:
            raise ValueError("the rows of its groups are not those of the file")

    def ranges(self, group: int, columns: Columns) -> list[tuple[int, int]]:
        """Return where the columns of a row group lie, as offset and length."""
        return [(start, length) for start, length, _ in self._chunks(group, columns)]

    def batches(self, group: int, columns: Columns) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group; batches that do not fit into memory become smaller."""
        total = self.groups[group]
        if not total:
            return
        chunks = self._chunks(group, columns)
        packed = sum(length for _, length, _ in chunks)
        limit = _FREE_BYTES + _MAX_RATIO * packed + _ROW_BYTES * total
        width = sum(unpacked for _, _, unpacked in chunks) // total
        size = max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(width, 1)))
        done = 0
        while done < total:
            with suppress(MemoryError) if size > 1 else nullcontext():
                for batch in self._rest(group, columns, done, size):
                    weight = sum(map(_weight, batch.columns))
                    if weight > _MAX_BATCH and size > 1 and limit >= weight:
                        break
                    limit -= weight
                    if limit < 0 or weight > _MAX_ROW:
                        raise ValueError(f"{packed} bytes unpack to more than is sane")
                    done += batch.num_rows
                    yield batch
                else:
                    if done < total:
                        raise ValueError(f"a row group lacks {total - done} of its rows")
            size = max(1, size // _FEWER)

    def _rest(self, group: int, columns: Columns, done: int, size: int) -> Iterator[pa.RecordBatch]:
        found = self._parquet.iter_batches(
            size, row_groups=[group], columns=columns, use_threads=False
        )
        for batch in found:
            skipped = min(done, batch.num_rows)
            done -= skipped
            if skipped < batch.num_rows:
                yield batch.slice(skipped)

    def _chunks(self, group: int, columns: Columns) -> list[tuple[int, int, int]]:
        """Return offset, length and unpacked length of each column, held against limits."""
        found = []
        about, rows = self._footer.row_group(group), self.groups[group]
        for number, leaf in enumerate(self._leaves):
            if columns is not None and not any(
                leaf.path == one or leaf.path.startswith(f"{one}.") for one in columns
            ):
                continue
            chunk = about.column(number)
            start = chunk.data_page_offset
            if chunk.dictionary_page_offset:
                start = min(start, chunk.dictionary_page_offset)
            length, unpacked = chunk.total_compressed_size, chunk.total_uncompressed_size
            if chunk.file_path or start < 0 or length < 0 or start + length > self._size:
                raise ValueError("a column lies outside of the file")
            if unpacked > _FREE_BYTES + _MAX_RATIO * length:
                raise ValueError(f"a column announces {unpacked} bytes")
            values = chunk.num_values
            repeats = leaf.max_repetition_level > 0
            if not (0 <= values <= _MAX_VALUES if repeats else values == rows):
                raise ValueError(f"a column announces {values} values in {rows} rows")
            found.append((start, length, unpacked))
        return found


def serve() -> None:
    """Read files until the other end is closed, or has been silent for a while."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other end decides
    channel = socket.socket(fileno=int(sys.argv[1]))
    _limit_memory()
    with suppress(OSError, EOFError):
        while True:
            channel.settimeout(_IDLE_S)
            kind, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
            channel.settimeout(None)
            if kind == PING:
                send(channel, READY)
            elif kind == FILE:
                with os.fdopen(descriptors[0], "rb", buffering=0) as file:
                    _serve_file(channel, file)
            else:
                break
    os._exit(0)  # nobody is left to flush for


def _limit_memory() -> None:
    """Let an allocation beyond the limit fail, where the system can do that (Linux)."""
    with suppress(OSError, ValueError):  # a crash is a verdict, its memory is of no use
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError), Path("/proc/self/statm").open("rb") as file:
        pages = int(file.read().split()[_STATM_DATA])
        limit = pages * os.sysconf("SC_PAGE_SIZE") + _MEMORY
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _serve_file(channel: socket.socket, file: io.RawIOBase) -> None:
    questions = _Questions(file)
    send(channel, *questions.answer(SCHEMA, b""))
    while True:
        kind, body = receive(channel)
        if kind == CLOSE:
            return
        send(channel, *questions.answer(kind, body))


class _Questions:
    """Answers what is asked about one file."""

    def __init__(self, file: io.RawIOBase) -> None:
        self._source = file
        self._file: _File | None = None
        self._batches: Iterator[pa.RecordBatch] = iter(())

    def answer(self, kind: bytes, body: bytes | memoryview) -> tuple[bytes, Body]:
        """Return the answer; whatever goes wrong, the file cannot be read."""
        try:
            if self._file is None:
                self._file = _File(self._source)
                schema = self._file.schema.serialize().to_pybytes()
                return SCHEMA, encode(Opened(schema, tuple(self._file.groups)))
            if kind == GROUP:
                wanted = decode(body, Wanted)
                self._batches = self._file.batches(wanted.group, wanted.columns)
                return RANGES, encode(self._file.ranges(wanted.group, wanted.columns))
            batch = next(self._batches, None)
            return (DONE, b"") if batch is None else (BATCH, _packed(batch))
        except Exception as error:  # noqa: BLE001 (it is only told)
            lines = str(error).strip().splitlines() or [type(error).__name__]
            return FAILED, lines[0].encode()


def _packed(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def send(channel: socket.socket, kind: bytes, body: Body = b"") -> None:
    """Send a question or an answer."""
    channel.sendall(kind + len(memoryview(body)).to_bytes(_LENGTH, "big"))
    channel.sendall(body)


def receive(channel: socket.socket) -> tuple[bytes, memoryview]:
    """Return the next question or answer.

    Raises:
        EOFError, OSError: the other end is gone.
    """
    head = _read(channel, 1 + _LENGTH)
    return bytes(head[:1]), _read(channel, int.from_bytes(head[1:], "big"))


def _read(channel: socket.socket, length: int) -> memoryview:
    whole = memoryview(bytearray(length))
    rest = whole
    while rest:
        count = channel.recv_into(rest)
        if not count:
            raise EOFError
        rest = rest[count:]
    return whole


def _is_bytes(leaf: pq.ColumnSchema) -> bool:
    return bool(leaf.physical_type == "BYTE_ARRAY")


def _weight(values: pa.Array) -> int:
    """Return the bytes of an array once its codes are spelled out."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return _weight(values.storage)
    if pa.types.is_struct(kind):
        return sum(_weight(values.field(number)) for number in range(kind.num_fields))
    if pa.types.is_map(kind):
        return _inner_weight(values, values.keys) + _inner_weight(values, values.items)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _inner_weight(values, values.values)
    if pa.types.is_dictionary(kind) and is_textlike(kind.value_type):
        lengths = pc.binary_length(values.dictionary).cast(pa.int64())
        return int(pc.sum(lengths.take(values.indices)).as_py() or 0)
    return int(values.nbytes)


def _inner_weight(lists: pa.Array, values: pa.Array) -> int:
    """Return the weight of the values that belong to these lists, each an object of its own."""
    offsets = lists.offsets
    first, last = int(offsets[0].as_py()), int(offsets[-1].as_py())
    return _weight(values.slice(first, last - first)) + (last - first) * _OBJECT
