"""Typed statistics of a checkpoint (`stats_parsed`) as the text that Delta writes: the way back.

The text is made by whole columns. Times are cut to milliseconds and nulls are left out, as Delta
Spark does; a value that has no spelling is left out too: no bound is a true bound.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.protocol.arrow_text import as_text, plain_storage

_TEXT = pa.string()
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # the years 1 to 9999
_DAY_MS = 86_400_000
_ESCAPED = r'[\x00-\x1f"\\]'


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
