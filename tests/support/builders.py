"""Small tables, adds and catalogs, built the same way in every test."""

import uuid
from collections.abc import Iterable
from typing import TypeVar

import pyarrow as pa

import deltasql
from deltasql.protocol.actions import Add, Remove
from deltasql.settings import MirrorSettings, Settings

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.string())])
T = TypeVar("T")
NO_MIRROR = Settings(mirror=MirrorSettings(mode="off"))


def an_add(path: str, day: str | None = "a", low: int = 0, high: int = 9, **changes) -> Add:
    stats = (
        f'{{"numRecords":{high - low + 1},"minValues":{{"id":{low},"name":"n{low:05d}"}},'
        f'"maxValues":{{"id":{high},"name":"n{high:05d}"}},"nullCount":{{"id":0,"name":0}}}}'
    )
    values = {
        "path": path,
        "partition_values": {"day": day},
        "size": 100,
        "modification_time": 1,
        "data_change": True,
        "stats": stats,
    }
    return Add(**{**values, **changes})


def a_remove(add: Add, **changes) -> Remove:
    values = {
        "path": add.path,
        "data_change": True,
        "partition_values": add.partition_values,
        "size": add.size,
        "deletion_vector": add.deletion_vector,
    }
    return Remove(**{**values, **changes})


def rows(*ids: int, day: str = "a") -> pa.Table:
    names = [f"n{number}" for number in ids]
    return pa.table({"id": list(ids), "name": names, "day": [day] * len(ids)}, schema=SCHEMA)


def a_table(catalog: deltasql.Catalog, tmp_path, name: str = "orders", **options) -> deltasql.Table:
    place = str(tmp_path / f"lake-{name}-{uuid.uuid4().hex[:8]}")
    given = {"schema": SCHEMA, "partition_by": ["day"], **options}
    return catalog.create_table(name, location=place, **given)


def paths(table: deltasql.Table, **choice) -> set[str]:
    return set(table.snapshot(**choice).files(["path"]).column("path").to_pylist())


def ids(table: deltasql.Table, **choice) -> list[int]:
    return sorted(table.scan(columns=["id"], **choice).to_arrow().column("id").to_pylist())


def some(values: Iterable[T]) -> list[T]:
    """Return the values as a list; none at all fail: a loop over them would check nothing."""
    found = list(values)
    assert found, "there is nothing to look at"
    return found
