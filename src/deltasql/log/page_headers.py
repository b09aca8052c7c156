"""What the pages of a Parquet column chunk announce, read before any of them is unpacked.

A few bytes can announce gigabytes: a page that unpacks to them, a long text that a dictionary
repeats, millions of nulls. The headers (Thrift's compact protocol) tell all of it beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from deltasql.log.parquet_footer import Chunk
from deltasql.log.thrift_compact import Compact, Struct

_MEGABYTE = 1024 * 1024
MOST_PAGE_BYTES = 128 * _MEGABYTE
_HEADER_BYTES = (4096, 64 * 1024, 16 * _MEGABYTE)
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_DETAILS = {_DATA: (5, 2), _DICTIONARY: (7, 2), _DATA_V2: (8, 4)}  # field, and its encoding's
_BY_DICTIONARY = frozenset({2, 8})
_BY_PREFIX = 7
_CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
_SHORT = 1024
_NUMBER = 16  # bytes of the widest number


@dataclass(frozen=True, slots=True)
class Page:
    """One page, as its header describes it; `at` is where its bytes begin."""

    kind: int
    at: int
    size: int
    unpacked: int
    values: int
    encoding: int


def widest_value(file: BinaryIO, chunk: Chunk, *, is_bytes: bool) -> tuple[int, int]:
    """Return the most bytes that a page, and on average of its page a value, unpack to.

    Raises:
        ValueError: the headers contradict the footer, or a page is beyond the limit.
    """
    widest, largest, seen, longest = 1, 0, 0, 0
    for page in _pages(file, chunk):
        largest = max(largest, page.unpacked)
        if page.kind == _DICTIONARY:
            longest = _longest(file, page, chunk.codec) if is_bytes else _NUMBER
            continue
        seen += page.values
        widest = max(widest, _value_bytes(page, longest))
    if seen != chunk.values:
        raise ValueError(f"the pages of a column hold {seen} values instead of {chunk.values}")
    return largest, widest


def _value_bytes(page: Page, longest: int) -> int:
    if page.encoding in _BY_DICTIONARY:
        return longest + 4
    # each of its values may repeat the beginning of the one before, however long that is
    count = 1 if page.encoding == _BY_PREFIX else max(page.values, 1)
    return page.unpacked // count + 1


def _pages(file: BinaryIO, chunk: Chunk) -> Iterator[Page]:
    at, end, seen = chunk.start, chunk.start + chunk.length, 0
    while seen < chunk.values:
        header, length = _header(file, at, end)
        page = _page(header, at + length)
        at = page.at + page.size
        if page.size < 0 or at > end:
            raise ValueError("a page is longer than its column")
        if not 0 <= page.unpacked <= MOST_PAGE_BYTES:
            raise ValueError(f"a page announces {page.unpacked} bytes")
        if page.values < 0 or page.encoding not in chunk.encodings:
            raise ValueError("a page is not what the footer says")
        seen += 0 if page.kind == _DICTIONARY else page.values
        yield page


def _page(header: Struct, at: int) -> Page:
    kind = header.get(1)
    field, encoding = _DETAILS.get(kind, (0, 0)) if isinstance(kind, int) else (0, 0)
    details = header.get(field)
    if not isinstance(kind, int) or not isinstance(details, dict):
        raise TypeError("a page is of an unknown kind")
    numbers = [header.get(3), header.get(2), details.get(1), details.get(encoding)]
    if not all(type(number) is int for number in numbers):
        raise ValueError("the header of a page lacks a number")
    size, unpacked, values, code = numbers
    return Page(kind, at, size, unpacked, values, code)  # type: ignore[arg-type]


def _longest(file: BinaryIO, page: Page, codec: int) -> int:
    """Return the length of the longest text in a dictionary, or a bound of it."""
    most = max(page.unpacked - 4 * page.values, 0)
    if most <= _SHORT or (codec and codec not in _CODECS):
        return most
    file.seek(page.at)
    data = file.read(page.size)
    if codec:
        data = pa.decompress(data, page.unpacked, _CODECS[codec], asbytes=True)
    return _longest_text(data, page.values)


def _longest_text(data: bytes, count: int) -> int:
    at = longest = 0
    for _ in range(count):
        length = int.from_bytes(data[at : at + 4], "little")
        at += 4 + length
        longest = max(longest, length)
        if at > len(data):
            raise ValueError("a dictionary ends early")
    return longest


def _header(file: BinaryIO, at: int, end: int) -> tuple[Struct, int]:
    for size in _HEADER_BYTES:
        file.seek(at)
        data = file.read(min(size, max(end - at, 0)))
        reader = Compact(data)
        try:
            return reader.struct(), reader.at
        except IndexError:
            if len(data) < size:
                break
    raise ValueError("the header of a page has no end")
