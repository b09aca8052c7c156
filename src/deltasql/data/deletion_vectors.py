"""Deletion vectors: which rows of a file are deleted, read from the log or from their own file.

Everything that can be checked is checked (magic, size, checksum, cardinality): a damaged vector
must never bring deleted rows back or delete others.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap, BitMap64

from deltasql.errors import ObjectNotFoundError
from deltasql.metastore.references import damaged_vector, vector_path
from deltasql.protocol.actions import DeletionVector
from deltasql.protocol.values import decode_z85

Vector: TypeAlias = BitMap64
# Reads `length` bytes from `start` of the object at a log's path.
ReadRange: TypeAlias = Callable[[str, int, int], bytes]

_PORTABLE, _NATIVE = 1681511377, 1681511376
_MAX_BITMAPS = 1 << 31


def read_vector(vector: DeletionVector, read_range: ReadRange) -> Vector:
    """Return the positions of the deleted rows.

    Raises:
        CorruptDataError: the vector is missing, damaged or not what the log says of it.
    """
    payload = _payload(vector, read_range)
    found = _checked(_parse(payload, vector), vector)
    if len(found) != vector.cardinality:
        raise damaged_vector(
            vector, f"it holds {len(found)} rows, the log says {vector.cardinality}"
        )
    return found


def _payload(vector: DeletionVector, read_range: ReadRange) -> bytes:
    path = vector_path(vector)
    if path is None:
        return _decode_z85(vector)[: vector.size_in_bytes]
    size, start = vector.size_in_bytes, vector.offset or 0
    if size < 0 or start < 0:
        raise damaged_vector(vector, "its place in the file is negative")
    try:
        framed = read_range(path, start, size + 8)
    except ObjectNotFoundError as error:
        raise damaged_vector(vector, "its file is missing") from error
    if len(framed) != size + 8:
        raise damaged_vector(vector, "its file ends before it")
    (told,) = struct.unpack(">i", framed[:4])
    payload, (checksum,) = framed[4:-4], struct.unpack(">I", framed[-4:])
    if told != size:
        raise damaged_vector(vector, f"its file says {told} bytes, the log {size}")
    if zlib.crc32(payload) != checksum:
        raise damaged_vector(vector, "its checksum is wrong")
    return payload


def _parse(payload: bytes, vector: DeletionVector) -> Vector:
    magic = int.from_bytes(payload[:4], "little")
    try:
        if magic == _PORTABLE:
            return BitMap64.deserialize(payload[4:])
        if magic == _NATIVE:
            return _parse_native(payload)
    except (ValueError, IndexError, struct.error) as error:
        raise damaged_vector(vector, "its bitmap is malformed") from error
    raise damaged_vector(vector, f"its magic number {magic} is not known")


def _checked(found: Vector, vector: DeletionVector) -> Vector:
    """Build the bitmap anew from its positions: a parsed one may break its own rules inside."""
    rows = found.to_array()
    positions = pa.array(rows, pa.uint64())
    if pc.all(pc.less(positions[:-1], positions[1:])).as_py() is False:
        raise damaged_vector(vector, "its rows are not in order")
    return BitMap64(rows)


def _parse_native(payload: bytes) -> Vector:
    """Read the older form: a count, then size and bytes of a 32-bit bitmap per high word."""
    (count,) = struct.unpack_from("<i", payload, 4)
    if not 0 <= count < _MAX_BITMAPS:
        raise ValueError(count)
    found, at = BitMap64(), 8
    for high in range(count):
        (size,) = struct.unpack_from("<i", payload, at)
        at += 4
        if size < 0 or at + size > len(payload):
            raise ValueError(size)
        low = BitMap.deserialize(payload[at : at + size])
        found |= BitMap64(array("Q", low.to_array())).shift(high << 32)
        at += size
    return found


def _decode_z85(vector: DeletionVector) -> bytes:
    try:
        return decode_z85(vector.path_or_inline_dv)
    except ValueError as error:
        raise damaged_vector(vector, "its text is not Z85") from error
