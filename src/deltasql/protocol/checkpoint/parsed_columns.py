"""Partition values and statistics as typed columns of a checkpoint, and back to text.

A text that does not fit its type becomes null, as Delta Spark's casts do. Bounds are those that
can be trusted: a reader that takes them at their word skips no file that it needs.

Typed statistics of a checkpoint (`stats_parsed`) as the text that Delta writes: the way back. The
text is made by whole columns. Times are cut to milliseconds and nulls are left out, as Delta
Spark does; a value that has no spelling is left out too: no bound is a true bound.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from decimal import Decimal as Number
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.protocol.actions import Metadata
from deltasql.protocol.schema.arrow import as_text, plain_storage, to_arrow_type
from deltasql.protocol.schema.columns import Leaf, mapping_mode, partition_fields, physical_name
from deltasql.protocol.schema.types import Decimal, Primitive, parse_schema
from deltasql.protocol.stats.build import stats_columns
from deltasql.protocol.stats.parse import column_bounds, null_count, parse_stats
from deltasql.protocol.values import Value, parse_partition_value

_TEXT = pa.string()
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # the years 1 to 9999
_DAY_MS = 86_400_000
_ESCAPED = r'[\x00-\x1f"\\]'

_LONG, _BOOL = pa.int64(), pa.bool_()
_UNBOUNDED = frozenset({"binary", "boolean", "void", "variant"})
_DIGITS = Context(prec=39)  # one more than the longest decimal has: rounding may carry


def stats_texts(parsed: pa.StructArray) -> pa.Array:
    """Return the JSON text of every row; null where nothing is known.

    Raises:
        ValueError: a text is not UTF-8, or a time lies outside what its type can hold.
    """
    texts = _objects(parsed)
    # what has no value at any depth says nothing
    told = pc.match_substring_regex(texts, r":[^{]")
    return pc.if_else(told, texts, pa.scalar(None, _TEXT))


def _objects(found: pa.StructArray) -> pa.Array:
    """Return structs as JSON objects; null where the struct is."""
    told = []
    for field, child in zip(found.type, found.flatten(), strict=True):
        texts = _texts(child)
        if texts is not None:
            name = f",{json.dumps(field.name, ensure_ascii=False)}:"
            told.append(pc.fill_null(_join(name, texts), ""))
    # Arrow's own way of skipping nulls drops rows that have nothing else; here no part is null
    inner = _join(*told) if told else pa.repeat(pa.scalar("", _TEXT), len(found))
    whole = _join("{", pc.utf8_slice_codeunits(inner, 1), "}")
    return pc.if_else(found.is_valid(), whole, pa.scalar(None, _TEXT))


def _join(*parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, "")


def _texts(values: pa.Array) -> pa.Array | None:
    """Return values as JSON; None for a type that statistics do not know."""
    values = plain_storage(values)
    for accepts, spell in _SPELLINGS:
        if accepts(values.type):
            return spell(values)
    return None


def _strings(values: pa.Array) -> pa.Array:
    values = as_text(values)
    quoted = _join('"', values, '"')
    needed = pc.fill_null(pc.match_substring_regex(values, _ESCAPED), False)
    if not pc.any(needed).as_py():
        return quoted
    escaped = [json.dumps(text, ensure_ascii=False) for text in values.filter(needed).to_pylist()]
    return pc.replace_with_mask(quoted, needed, pa.array(escaped, _TEXT))


def _floats(values: pa.Array) -> pa.Array:
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    texts = values.cast(_TEXT)
    whole = pc.match_substring_regex(texts, r"^-?\d+$")
    texts = pc.if_else(whole, _join(texts, ".0"), texts)
    # JSON has no such numbers; Spark writes their names
    texts = pc.if_else(pc.is_nan(values), '"NaN"', texts)
    endless = pc.if_else(pc.greater(values, 0.0), '"Infinity"', '"-Infinity"')
    return pc.if_else(pc.is_inf(values), endless, texts)


def _decimals(values: pa.Array) -> pa.Array:
    texts = values.cast(_TEXT)
    short = pc.fill_null(pc.match_substring(texts, "E"), False)
    if not pc.any(short).as_py():
        return texts
    plain = [format(number, "f") for number in values.filter(short).to_pylist()]
    return pc.replace_with_mask(texts, short, pa.array(plain, _TEXT))


def _dates(values: pa.Array) -> pa.Array:
    days = values.cast(pa.date32())
    kept = _within(days, days.view(pa.int32()), _FIRST_DAY, _LAST_DAY)
    return _join('"', kept.cast(_TEXT), '"')


def _timestamps(values: pa.Array) -> pa.Array:
    unit, zone = values.type.unit, values.type.tz
    local = values.view(pa.int64()).view(pa.timestamp(unit))  # Parquet's instants are UTC
    cut = pc.floor_temporal(local, unit="millisecond") if unit in {"us", "ns"} else local
    moments = cut.cast(pa.timestamp("ms"))
    last = (_LAST_DAY + 1) * _DAY_MS - 1
    kept = _within(moments, moments.view(pa.int64()), _FIRST_DAY * _DAY_MS, last)
    texts = pc.replace_substring(kept.cast(_TEXT), " ", "T")
    return _join('"', texts, '"' if zone is None else 'Z"')


def _within(values: pa.Array, numbers: pa.Array, low: int, high: int) -> pa.Array:
    inside = pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high))
    return pc.if_else(inside, values, pa.scalar(None, values.type))


def _is_stringlike(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


_SPELLINGS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]], ...] = (
    (pa.types.is_struct, _objects),
    (_is_stringlike, _strings),
    (pa.types.is_integer, lambda values: values.cast(_TEXT)),
    (pa.types.is_boolean, lambda values: values.cast(_TEXT)),
    (pa.types.is_floating, _floats),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_date, _dates),
    (pa.types.is_timestamp, _timestamps),
)


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
