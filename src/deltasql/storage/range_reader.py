"""A seekable file over any store that can read ranges."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BUFFER_BYTES = 256 * 1024


class _RangeReader(io.RawIOBase):
    """Reads by ranges; the buffer above it keeps small reads from becoming requests."""

    def __init__(self, read_range: Callable[[int, int], bytes], size: int) -> None:
        super().__init__()
        self._read_range = read_range
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError("a file has no position before its start")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), self._size - self._at)
        if wanted <= 0:
            return 0
        data = self._read_range(self._at, wanted)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


def open_ranges(read_range: Callable[[int, int], bytes], size: int) -> BinaryIO:
    """Return a buffered, seekable reader of `size` bytes over `read_range(start, length)`."""
    raw = _RangeReader(read_range, size)
    return cast("BinaryIO", io.BufferedReader(raw, buffer_size=_BUFFER_BYTES))
