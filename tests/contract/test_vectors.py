"""Deletion vectors of all three kinds, through a table: in SQL, in the log, and in what is read."""

import base64
import struct
import zlib
from pathlib import Path

import pytest
from pyroaring import BitMap

import deltasql
from builders import a_table, ids, rows
from deltasql.protocol.actions import DeletionVector, Protocol
from deltasql.protocol.codec import to_json_object
from deltasql.testing.invariants import check_invariants
from readers import read_duckdb

FEATURES = ["appendOnly", "deletionVectors", "deltasqlManaged", "inCommitTimestamp", "invariants"]
_MAGIC, _UUID = 1681511377, "ab^-aqEH.-t@S}K{vb[*k^"
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def vector_bytes(*gone: int) -> bytes:
    """A roaring array of one 32-bit bitmap, behind its magic number."""
    return struct.pack("<iqi", _MAGIC, 1, 0) + BitMap(gone).serialize()


def z85(data: bytes) -> str:
    data += b"\0" * (-len(data) % 4)
    words = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(
        "".join(_Z85[word // 85**power % 85] for power in (4, 3, 2, 1, 0)) for word in words
    )


def file_bytes(vector: bytes) -> bytes:
    """A file of vectors: a version byte, then length, vector and checksum."""
    return b"\1" + struct.pack(">i", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))


def make_vector(kind: str, place: Path, *gone: int) -> DeletionVector:
    data = vector_bytes(*gone)
    common = {"size_in_bytes": len(data), "cardinality": len(gone)}
    if kind == "i":
        return DeletionVector(storage_type="i", path_or_inline_dv=z85(data), **common)
    name = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    (place / name).write_bytes(file_bytes(data))
    if kind == "u":
        return DeletionVector(storage_type="u", path_or_inline_dv=_UUID[2:], offset=1, **common)
    path = (place / name).as_uri()
    return DeletionVector(storage_type="p", path_or_inline_dv=path, offset=1, **common)


@pytest.mark.parametrize("kind", ["i", "u", "p"])
def test_rows_deleted_by_a_vector_stay_away(catalog_uri, tmp_path, kind):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path, partition_by=[])
        protocol = Protocol(
            min_reader_version=3,
            min_writer_version=7,
            reader_features=["deletionVectors"],
            writer_features=FEATURES,
        )
        table.commit([protocol])
        table.append(rows(0, 1, 2, 3, 4))
        (old,) = table.snapshot().files().to_pylist()
        place = Path(table.location.removeprefix("file://"))
        vector = make_vector(kind, place, 1, 3)
        body = to_json_object(_add(old, vector))["add"]
        removed = {"path": old["path"], "dataChange": True, "deletionTimestamp": 1}
        table.commit([{"remove": removed}, {"add": body}])
        assert ids(table) == [0, 2, 4]
        assert ids(table, version=2) == [0, 1, 2, 3, 4]
        (now,) = table.snapshot().files().to_pylist()
        assert now["dv_id"] == vector.id
        catalog.mirror.checkpoint("orders")
        check_invariants(catalog, "orders")
        assert catalog.mirror.verify("orders") == []
        if kind != "p":
            assert [row["id"] for row in read_duckdb(str(place))] == [0, 2, 4]


def test_a_vector_with_a_field_of_a_newer_writer_is_read(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path, partition_by=[])
        protocol = Protocol(
            min_reader_version=3,
            min_writer_version=7,
            reader_features=["deletionVectors"],
            writer_features=FEATURES,
        )
        table.commit([protocol])
        table.append(rows(0, 1, 2))
        (old,) = table.snapshot().files().to_pylist()
        body = to_json_object(_add(old, make_vector("i", tmp_path, 1)))["add"]
        body["deletionVector"]["maxRowIndex"] = 2
        table.commit([{"remove": {"path": old["path"], "dataChange": True}}, {"add": body}])
        assert ids(table) == [0, 2]
        assert table.vacuum(dry_run=False) is not None
        table.compact()
        assert ids(table) == [0, 2]
        check_invariants(catalog, "orders")


def _add(old: dict, vector: DeletionVector):
    from deltasql.protocol.actions import Add

    return Add(
        path=old["path"],
        size=old["size"],
        modification_time=old["modification_time"],
        partition_values={},
        data_change=True,
        stats=old["stats"],
        deletion_vector=vector,
    )


def test_the_test_spells_the_protocols_own_example():
    """Z85 of the protocol's example UUID; the rest of the file stands on it."""
    assert z85(base64.b16decode("D2C639AA8816431AAAF6D3FE2512FF61")) == _UUID[2:]
