"""Partition values and statistics as typed columns of a checkpoint, where the table asks for them.

A text that does not fit its type becomes null, as Delta Spark's casts do. Bounds are those that
can be trusted: a reader that takes them at their word skips no file that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from decimal import Decimal as Number
from typing import Any

import msgspec
import pyarrow as pa

from deltasql.protocol.actions import Metadata
from deltasql.protocol.arrow_schema import to_arrow_type
from deltasql.protocol.columns import Leaf, mapping_mode, physical_name
from deltasql.protocol.partitioning import partition_fields
from deltasql.protocol.schema import Decimal, Primitive, parse_schema
from deltasql.protocol.stats import column_bounds, null_count, parse_stats
from deltasql.protocol.stats_build import stats_columns
from deltasql.protocol.values import Value, parse_partition_value

_LONG, _BOOL = pa.int64(), pa.bool_()
_UNBOUNDED = frozenset({"binary", "boolean", "void", "variant"})
_DIGITS = Context(prec=39)  # one more than the longest decimal has: rounding may carry


class ParsedColumns:
    """`partitionValues_parsed` and `stats_parsed` of one table, with Spark's fields."""

    def __init__(self, metadata: Metadata, *, has_vectors: bool) -> None:
        self._has_vectors = has_vectors
        self._mode = mapping_mode(metadata.configuration)
        self._partitions = [
            (physical_name(field, self._mode), field.type) for field in partition_fields(metadata)
        ]
        self._columns = stats_columns(
            parse_schema(metadata.schema_string),
            metadata.partition_columns,
            metadata.configuration,
            self._mode,
        )

    def fields(self) -> list[tuple[str, pa.DataType]]:
        """Return the fields that `add` gets."""
        found = []
        if self._partitions:
            kinds = [(name, to_arrow_type(kind)) for name, kind in self._partitions]
            found.append(("partitionValues_parsed", pa.struct(kinds)))
        return [*found, ("stats_parsed", self._stats_type())]

    def arrays(self, files: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return the values of those fields for every file."""
        made = {}
        if self._partitions:
            encoded = files.column("partition_values").dictionary_encode()
            kind = dict(self.fields())["partitionValues_parsed"]
            found = [self._partition(text) for text in encoded.dictionary.to_pylist()]
            made["partitionValues_parsed"] = pa.array(found, kind).take(encoded.indices)
        texts = files.column("stats").to_pylist()
        made["stats_parsed"] = pa.array([self._stats(t) for t in texts], self._stats_type())
        return made

    def _partition(self, text: str) -> dict[str, Any]:
        values: Mapping[str, str | None] = msgspec.json.decode(text)
        return {
            name: parse_partition_value(value, kind) if (value := values.get(name)) else None
            for name, kind in self._partitions
        }

    def _stats_type(self) -> pa.DataType:
        bounded = _tree(
            [leaf for leaf in self._columns if _is_bounded(leaf)],
            lambda leaf: to_arrow_type(leaf.type),
        )
        counted = _tree(self._columns, lambda _: _LONG)
        fields: list[tuple[str, pa.DataType]] = [("numRecords", _LONG)]
        if bounded:
            fields += [("minValues", _struct(bounded)), ("maxValues", _struct(bounded))]
        if counted:
            fields.append(("nullCount", _struct(counted)))
        if self._has_vectors:
            fields.append(("tightBounds", _BOOL))
        return pa.struct(fields)

    def _stats(self, text: str | None) -> dict[str, Any] | None:
        stats = parse_stats(text)
        if stats is None:
            return None
        low: dict[str, Any] = {}
        high: dict[str, Any] = {}
        nulls: dict[str, Any] = {}
        for leaf in self._columns:
            _put(nulls, leaf.physical, null_count(stats, leaf))
            if _is_bounded(leaf):
                least, most = column_bounds(stats, leaf)
                _put(low, leaf.physical, _fit(least, leaf, ROUND_FLOOR))
                _put(high, leaf.physical, _fit(most, leaf, ROUND_CEILING))
        found = {
            "numRecords": stats.num_records,
            "minValues": low or None,
            "maxValues": high or None,
            "nullCount": nulls or None,
        }
        return {**found, "tightBounds": stats.tight_bounds} if self._has_vectors else found


def _is_bounded(leaf: Leaf) -> bool:
    if isinstance(leaf.type, Primitive):
        return leaf.type.name not in _UNBOUNDED
    return isinstance(leaf.type, Decimal)


def _fit(value: Value | None, leaf: Leaf, rounding: str) -> Value | None:
    """Return a bound as its column can hold it: decimals rounded outwards, None if too big."""
    kind = leaf.type
    if not isinstance(kind, Decimal) or not isinstance(value, Number):
        return value
    limit = Number(10) ** (kind.precision - kind.scale)
    if abs(value) >= limit:
        return None
    fitted = value.quantize(Number(1).scaleb(-kind.scale), rounding, _DIGITS)
    return fitted if abs(fitted) < limit else None


def _tree(columns: list[Leaf], kind: Callable[[Leaf], pa.DataType]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for leaf in columns:
        _put(tree, leaf.physical, kind(leaf))
    return tree


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _struct(tree: Mapping[str, Any]) -> pa.DataType:
    return pa.struct([(name, _struct(v) if isinstance(v, dict) else v) for name, v in tree.items()])
