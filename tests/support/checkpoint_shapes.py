"""Tables whose checkpoints have every kind of column, and what there is to compare of them."""

import datetime as dt
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


@dataclass(frozen=True)
class Shape:
    """A table's schema with one row of it."""

    schema: pa.Schema
    row: dict[str, Any]
    partition_by: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)

    def rows(self) -> list[pa.Table]:
        """Values of every column, then nothing but nulls."""
        nulls = dict.fromkeys(self.row)
        return [pa.Table.from_pylist([row], schema=self.schema) for row in (self.row, nulls)]


_MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=dt.UTC)
_INT = pa.int32()
_INNER = pa.struct([("u", pa.int64()), ("w", pa.list_(_INT))])


def _numbers(count: int, properties: dict[str, str] | None = None) -> Shape:
    names = [f"c{number}" for number in range(count)]
    schema = pa.schema([(name, _INT) for name in names])
    return Shape(schema, {name: n for n, name in enumerate(names)}, (), properties or {})


SHAPES = {
    "types": Shape(
        pa.schema(
            [
                ("flag", pa.bool_()),
                ("tiny", pa.int8()),
                ("real", pa.float32()),
                ("bytes", pa.binary()),
                ("map", pa.map_(pa.string(), _INT)),
                ("d9", pa.decimal128(9, 2)),
                ("d18", pa.decimal128(18, 3)),
                ("d38", pa.decimal128(38, 10)),
                ("at", pa.timestamp("us", "UTC")),
                ("deep", pa.struct([("t", _INNER), ("n", pa.string())])),
                ("list", pa.list_(pa.struct([("q", _INT)]))),
                ("day", pa.date32()),
            ]
        ),
        {
            "flag": True,
            "tiny": 1,
            "real": 0.1,
            "bytes": b"x",
            "map": [("k", 1)],
            "d9": Decimal("1.25"),
            "d18": Decimal("-1.125"),
            "d38": Decimal("1.25"),
            "at": _MOMENT,
            "deep": {"t": {"u": 5, "w": [1]}, "n": "n"},
            "list": [{"q": 1}],
            "day": _MOMENT.date(),
        },
    ),
    "local_times": Shape(
        pa.schema([("at", pa.timestamp("us")), ("k", pa.int64())]),
        {"at": _MOMENT.replace(tzinfo=None), "k": 1},
    ),
    "partitions": Shape(
        pa.schema(
            [
                ("k", pa.int64()),
                ("day", pa.date32()),
                ("at", pa.timestamp("us", "UTC")),
                ("price", pa.decimal128(12, 2)),
                ("flag", pa.bool_()),
                ("x", pa.float64()),
                ("text", pa.string()),
            ]
        ),
        {
            "k": 1,
            "day": _MOMENT.date(),
            "at": _MOMENT,
            "price": Decimal("1.25"),
            "flag": True,
            "x": 1.5,
            "text": "a b/c%d#e=é",
        },
        ("day", "at", "price", "flag", "x", "text"),
    ),
    "many_columns": _numbers(40),
    "chosen_columns": _numbers(5, {"delta.dataSkippingStatsColumns": "c1,c3"}),
    "no_columns_error": _numbers(3, {"delta.dataSkippingNumIndexedCols": "0"}),
    "vectors": _numbers(2, {"delta.enableDeletionVectors": "true"}),
}


def columns_of(checkpoint: Path) -> list[tuple[Any, ...]]:
    """Return each leaf of the file's schema: path, types, and what may be null or repeat."""
    with pq.ParquetFile(checkpoint) as file:
        found = [file.schema.column(number) for number in range(len(file.schema))]
        return [
            (
                one.path,
                one.physical_type,
                str(one.logical_type),
                one.converted_type,
                one.length,
                one.max_definition_level,
                one.max_repetition_level,
            )
            for one in found
        ]


def actions_of(checkpoint: Path) -> dict[str, list[str]]:
    """Return the actions by kind in one order, without the bounds: ours are wider than Spark's."""
    found = pq.read_table(checkpoint).to_pylist()
    kinds: dict[str, list[str]] = {}
    for row in found:
        for kind, body in row.items():
            if body is not None:
                kinds.setdefault(kind, []).append(repr(_plain(body)))
    return {kind: sorted(bodies) for kind, bodies in kinds.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if k not in {"minValues", "maxValues"}}
        return {key: _plain(kept[key]) for key in sorted(kept)}
    return sorted(map(_plain, value), key=repr) if isinstance(value, list) else value
