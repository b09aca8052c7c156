"""A Parquet file of a log, read with distrust: nothing is unpacked before its numbers fit.

What a footer or a page announces is held against limits first, batches are as long as memory
allows, checksums of pages are verified. Of a remote object the chosen columns are copied once.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltasql.log.page_headers import widest_value
from deltasql.log.parquet_footer import FREE_BYTES, MOST_RATIO, TAIL, footer_place, read_groups
from deltasql.protocol.arrow_text import is_textlike
from deltasql.storage.port import ObjectStore

_MEGABYTE = 1024 * 1024
_PIECE = 8 * _MEGABYTE
_SMALL_FILE = 16 * _MEGABYTE
_MOST_PAGES = 256 * _MEGABYTE  # the largest pages of all columns together
_BATCH_ROWS = 16_384
_BATCH_BYTES = 64 * _MEGABYTE
_MOST_BATCH = 256 * _MEGABYTE
_ROW_BYTES = 512  # even of nulls Arrow keeps offsets and bits, field by field
_OBJECT = 100  # bytes of a small value as a Python object


class ParquetInput:
    """An open file: its schema, its row groups, and batches of chosen columns."""

    def __init__(self, near: _Near) -> None:
        self._near = near
        self._groups = read_groups(near.footer(), near.size)
        footer = pq.read_metadata(near.file)
        self._leaves = [footer.schema.column(number) for number in range(len(footer.schema))]
        # repeated texts stay codes: a single row may hold millions of them
        coded = [x.path for x in self._leaves if x.max_repetition_level and _is_bytes(x)]
        self._parquet = pq.ParquetFile(
            near.file,
            metadata=footer,
            read_dictionary=coded,
            buffer_size=_MEGABYTE,
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
        )
        self.schema: pa.Schema = self._parquet.schema_arrow
        self.groups = tuple(group.rows for group in self._groups)

    def batches(self, group: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group: these columns, named by their path in the schema.

        Raises:
            ValueError, pyarrow.ArrowException, OSError: a number or a page is wrong.
        """
        if not self.groups[group]:
            return
        rows, packed = self._measure(group, columns)
        left = self.groups[group]
        limit = FREE_BYTES + MOST_RATIO * packed + _ROW_BYTES * left
        for batch in self._parquet.iter_batches(
            rows, row_groups=[group], columns=list(columns), use_threads=False
        ):
            weight = sum(map(_weight, batch.columns))
            left, limit = left - batch.num_rows, limit - weight
            if weight > _MOST_BATCH or limit < 0:
                raise ValueError(f"{packed} bytes unpack to more than is sane")
            yield batch
        if left:
            raise ValueError(f"a row group lacks {left} of its rows")

    def _measure(self, group: int, columns: Sequence[str]) -> tuple[int, int]:
        """Return how many rows to take at a time, and the size of the columns in the file."""
        packed = pages = width = 0
        for number, leaf in enumerate(self._leaves):
            if not any(leaf.path == one or leaf.path.startswith(f"{one}.") for one in columns):
                continue
            repeats = leaf.max_repetition_level > 0
            chunk = self._groups[group].chunk(number, repeats=repeats)
            self._near.fetch(chunk.start, chunk.length)
            largest, widest = widest_value(self._near.file, chunk, is_bytes=_is_bytes(leaf))
            packed, pages = packed + chunk.length, pages + largest
            if not repeats:  # what repeats stays codes, or is short
                width += max(widest, leaf.length or 0)
        if pages > _MOST_PAGES:
            raise ValueError(f"pages announce {pages} bytes")
        return max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(width, 1))), packed


@contextmanager
def open_parquet(store: ObjectStore, key: str) -> Iterator[ParquetInput]:
    """Open a Parquet file of a log.

    Raises:
        ObjectNotFoundError: there is none.
        ValueError, pyarrow.ArrowException, OSError: it is no such file.
    """
    with ExitStack() as open_files:
        far = open_files.enter_context(store.open_input(key))
        size = far.seek(0, io.SEEK_END)
        if store.local_path(key) is not None:
            near = _Near(far, far, size)
        elif size <= _SMALL_FILE:
            far.seek(0)
            whole = io.BytesIO(far.read())
            near = _Near(whole, whole, size)
        else:
            spool = tempfile.TemporaryFile(prefix="deltasql-checkpoint-")  # noqa: SIM115
            file = open_files.enter_context(cast("BinaryIO", spool))
            file.truncate(size)  # the copy has holes where nothing is needed
            near = _Near(far, file, size)
        yield ParquetInput(near)


class _Near:
    """The bytes of an object at hand: the file itself, all of a small one, or a sparse copy."""

    def __init__(self, far: BinaryIO, file: BinaryIO, size: int) -> None:
        self._far = far
        self.file = file
        self.size = size
        self._held: set[tuple[int, int]] = set()

    def footer(self) -> bytes:
        """Return the bytes of the footer."""
        self.fetch(max(self.size - TAIL, 0), min(self.size, TAIL))
        start, length = footer_place(self.file, self.size)
        self.fetch(start, length)
        self.file.seek(start)
        return self.file.read(length)

    def fetch(self, start: int, length: int) -> None:
        """Make a range readable in `file`."""
        if self.file is self._far or (start, length) in self._held:
            return
        self._held.add((start, length))
        self._far.seek(start)
        self.file.seek(start)
        while length > 0:
            piece = self._far.read(min(length, _PIECE))
            if not piece:
                raise OSError("the object ends early")
            self.file.write(piece)
            length -= len(piece)


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
