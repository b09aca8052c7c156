"""Deletion vectors are read in all their forms, and never when they are damaged."""

import random
import struct
import uuid
import zlib

import pytest
from pyroaring import BitMap, BitMap64

from deltasql.data.deletion_vectors import read_vector
from deltasql.errors import CorruptDataError, ObjectNotFoundError
from deltasql.metastore.references import vector_path
from deltasql.protocol.actions import DeletionVector
from deltasql.storage.memory import MemoryStore

PORTABLE, NATIVE = 1681511377, 1681511376
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
ROWS = [0, 3, 4, 70_000, 2**33 + 5]


def _z85(data):
    data += b"\0" * (-len(data) % 4)
    found = ""
    for (word,) in struct.iter_unpack(">I", data):
        found += "".join(Z85[word // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return found


def _portable(rows=ROWS):
    return struct.pack("<I", PORTABLE) + BitMap64(rows).serialize()


def _native(rows=ROWS):
    highs = max((row >> 32 for row in rows), default=-1) + 1
    found = struct.pack("<Ii", NATIVE, highs)
    for high in range(highs):
        bitmap = BitMap([row & 0xFFFFFFFF for row in rows if row >> 32 == high]).serialize()
        found += struct.pack("<i", len(bitmap)) + bitmap
    return found


def _frame(payload):
    return struct.pack(">i", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))


def _inline(payload):
    return DeletionVector(
        storage_type="i",
        path_or_inline_dv=_z85(payload),
        size_in_bytes=len(payload),
        cardinality=len(ROWS),
    )


def _nothing(path, start, length):
    raise ObjectNotFoundError(f"There is no {path}.")


def _stored(payload, *, prefix="", frame=None):
    """A store with the vector in a file of its own, behind another one, and the log's entry."""
    store, number = MemoryStore(), uuid.UUID(int=12345678901234567890)
    head = b"\x01" + _frame(b"another vector")
    folder = f"{prefix}/" if prefix else ""
    store.put(f"{folder}deletion_vector_{number}.bin", head + (frame or _frame(payload)))
    entry = DeletionVector(
        storage_type="u",
        path_or_inline_dv=prefix + _z85(number.bytes),
        offset=len(head),
        size_in_bytes=len(payload),
        cardinality=len(ROWS),
    )
    return store, entry


@pytest.mark.parametrize("make", [_portable, _native])
def test_inline_vectors_are_read(make):
    assert list(read_vector(_inline(make()), _nothing)) == ROWS


@pytest.mark.parametrize("make", [_portable, _native])
@pytest.mark.parametrize("prefix", ["", "ab"])
def test_vectors_in_files_are_read(make, prefix):
    store, entry = _stored(make(), prefix=prefix)
    assert list(read_vector(entry, store.get_range)) == ROWS


def test_the_path_of_the_protocols_example_is_found():
    entry = DeletionVector(
        storage_type="u",
        path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^",
        offset=4,
        size_in_bytes=40,
        cardinality=6,
    )
    path = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert vector_path(entry) == path


def test_absolute_vectors_keep_their_path():
    entry = DeletionVector(
        storage_type="p", path_or_inline_dv="s3://b/x.bin", size_in_bytes=1, cardinality=1
    )
    assert vector_path(entry) == "s3://b/x.bin"


def test_every_flipped_byte_of_a_file_is_found():
    payload = _portable()
    good = _frame(payload)
    for at in range(len(good)):
        bad = good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :]
        store, entry = _stored(payload, frame=bad)
        with pytest.raises(CorruptDataError):
            read_vector(entry, store.get_range)


def test_every_cut_of_a_file_is_found():
    payload = _portable()
    good = _frame(payload)
    for length in range(1, len(good)):
        store, entry = _stored(payload, frame=good[:length])
        with pytest.raises(CorruptDataError):
            read_vector(entry, store.get_range)


@pytest.mark.parametrize("make", [_portable, _native])
def test_damaged_inline_vectors_are_refused_or_of_the_told_size(make):
    roll = random.Random(7)
    payload = make()
    for _ in range(3000):
        bad = bytearray(payload)
        for _ in range(roll.randint(1, 4)):
            bad[roll.randrange(len(bad))] = roll.randrange(256)
        try:
            found = read_vector(_inline(bytes(bad)), _nothing)
        except CorruptDataError:
            continue
        assert len(list(found)) == len(ROWS)
        assert len(BitMap64(range(100)) - found) >= 95


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"cardinality": 4}, "5 rows"),
        ({"storage_type": "r"}, "not known"),
        ({"storage_type": "u", "path_or_inline_dv": "short"}, "not known"),
        ({"path_or_inline_dv": "abc"}, "Z85"),
        ({"path_or_inline_dv": "ü" * 5}, "Z85"),
        ({"path_or_inline_dv": "#####"}, "Z85"),
        ({"path_or_inline_dv": ""}, "magic"),
        ({"storage_type": "p", "path_or_inline_dv": "gone.bin"}, "missing"),
        ({"storage_type": "p", "path_or_inline_dv": "x", "offset": -1}, "negative"),
    ],
)
def test_what_the_log_says_wrongly_is_refused(changes, why):
    told = {
        "storage_type": "i",
        "path_or_inline_dv": _z85(_portable()),
        "size_in_bytes": len(_portable()),
        "cardinality": 5,
    }
    with pytest.raises(CorruptDataError, match=why):
        read_vector(DeletionVector(**{**told, **changes}), _nothing)
