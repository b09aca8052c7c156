"""A file that holds a matching row is never pruned, whoever wrote its statistics."""

import datetime as dt
import json
import math
from decimal import Decimal as Number

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.protocol.predicate import index_ranges, may_match, parse_predicate, to_arrow
from deltasql.protocol.schema.arrow import to_arrow_type
from deltasql.protocol.schema.columns import leaves
from deltasql.protocol.schema.types import (
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Decimal,
    StructField,
    StructType,
)
from deltasql.protocol.stats.build import Summary, build_stats
from deltasql.protocol.stats.parse import index_bounds, parse_stats
from deltasql.protocol.values import print_partition_value, round_to_float
from exact_answers import evaluate

pytestmark = pytest.mark.req("R40")

SCHEMA = StructType(
    (
        StructField("i", LONG),
        StructField("b", BYTE),
        StructField("d", Decimal(20, 3)),
        StructField("x", DOUBLE),
        StructField("f", FLOAT),
        StructField("s", STRING),
        StructField("day", DATE),
        StructField("ts", TIMESTAMP),
        StructField("n", TIMESTAMP_NTZ),
        StructField("flag", BOOLEAN),
    )
)
COLUMNS = list(leaves(SCHEMA))
TYPES = {column.path[0]: column.type for column in COLUMNS}
_MICROS = st.integers(-(10**14), 10**16) | st.integers(-2000, 2000)
_TEXT = st.text(
    st.sampled_from(["a", "b", "~", "\x7f", "é", "\uffff", "\U0001f600", "\U0010ffff", "%", "_"]),
    max_size=4,
) | st.builds(
    lambda stem, tail: stem * 31 + tail,
    st.sampled_from(["a", "\U0001f600", "\U0010ffff"]),
    st.text(st.sampled_from(["a", "b", "\x7f", "\U0001f600", "\U0010ffff"]), max_size=4),
)
VALUES = {
    "i": st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1) | st.integers(2**53 - 2, 2**53 + 4),
    "b": st.integers(-128, 127),
    "d": st.integers(-3000, 3000).map(lambda units: Number(units).scaleb(-3))
    | st.integers(-(10**20) + 1, 10**20 - 1).map(lambda units: Number(units).scaleb(-3)),
    "x": st.floats(-3, 3) | st.floats(),
    "f": st.floats(width=32),
    "s": _TEXT,
    "day": st.integers(-40000, 60000) | st.integers(-3, 3),
    "ts": _MICROS,
    "n": _MICROS,
    "flag": st.booleans(),
}


def _is_nan(value):
    return isinstance(value, float) and math.isnan(value)


@st.composite
def _columns(draw):
    rows = draw(st.integers(1, 4))
    return {
        name: draw(st.lists(st.none() | one, min_size=rows, max_size=rows))
        for name, one in VALUES.items()
    }


def _literal(name, value):
    if name == "s":
        return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
    if name in {"day", "ts", "n"}:
        return (
            f"'{print_partition_value(value, next(c.type for c in COLUMNS if c.path == (name,)))}'"
        )
    if name == "flag":
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return f"'{print_partition_value(value, DOUBLE)}'"
    return format(Number(value), "f")


@st.composite
def _atoms(draw, data):
    name = draw(st.sampled_from(list(VALUES)))
    own, fresh = [value for value in data[name] if value is not None], VALUES[name]
    pick = (st.sampled_from(own) | fresh) if own else fresh
    kind = draw(st.sampled_from(["compare", "compare", "in", "null", "between", "like", "column"]))
    if kind == "null":
        return f"{name} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    if kind == "in":
        items = [_literal(name, value) for value in draw(st.lists(pick, min_size=1, max_size=3))]
        items += draw(st.sampled_from([[], ["NULL"]]))
        return f"{name} {draw(st.sampled_from(['', 'NOT ']))}IN ({', '.join(items)})"
    if kind == "between":
        return f"{name} BETWEEN {_literal(name, draw(pick))} AND {_literal(name, draw(pick))}"
    if kind == "like" and name == "s":
        cut = draw(st.integers(0, 40))
        return f"s LIKE {_literal('s', draw(pick)[:cut] + '%')}"
    operator = draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<=>"]))
    if kind == "column":
        return f"{draw(st.sampled_from([f'{name} {operator} {name}', f'i {operator} b']))}"
    literal = _literal(name, draw(pick))
    if name in {"i", "b", "d"} and draw(st.booleans()):
        literal = draw(
            st.sampled_from([literal, f"{literal}{'5' if '.' in literal else '.5'}", "300"])
        )
    return f"{name} {operator} {literal}"


@st.composite
def _filters(draw, data, depth=2):
    if depth == 0 or draw(st.booleans()):
        return draw(_atoms(data))
    kind = draw(st.sampled_from(["AND", "OR", "NOT"]))
    if kind == "NOT":
        return f"NOT ({draw(_filters(data, depth - 1))})"
    left, right = draw(_filters(data, depth - 1)), draw(_filters(data, depth - 1))
    return f"({left}) {kind} ({right})"


@st.composite
def _cases(draw):
    data = draw(_columns())
    return data, draw(_filters(data)), draw(_stats(data))


@st.composite
def _stats(draw, data):
    """Statistics as we build them, or as others do: NaN as maximum, decimals through doubles."""
    summaries = []
    for column in COLUMNS:
        values = data[column.path[0]]
        known = [value for value in values if value is not None]
        numbers = [value for value in known if not _is_nan(value)]
        # some writers give no bounds where there is NaN, others pass it over
        is_told = numbers and (len(numbers) == len(known) or draw(st.booleans()))
        low, high = (min(numbers), max(numbers)) if is_told else (None, None)
        if draw(st.integers(0, 5)) == 0:
            low = None
        summaries.append((column, Summary(low, high, len(values) - len(known))))
    text = build_stats(len(data["i"]), summaries, {}, tight_bounds=False)
    return _as_others_write(draw, text, data)


def _as_others_write(draw, text, data):
    tree = json.loads(text, parse_float=Number)
    kind = draw(st.sampled_from(["ours", "nan", "double", "no nulls", "none"]))
    if kind == "ours":
        return text
    if kind == "none":
        return draw(st.sampled_from([None, "", "{", "[]", '{"minValues":3}']))
    if kind == "no nulls":
        del tree["nullCount"]
    for name in ("x", "f"):
        finite = [v for v in data[name] if v is not None and not _is_nan(v) and math.isfinite(v)]
        if kind == "nan" and any(v is not None and not math.isfinite(v) for v in data[name]):
            continue
        if kind == "nan" and finite:
            tree["minValues"][name] = min(finite)
            tree["maxValues"][name] = "NaN"
    return json.dumps(tree, default=float, allow_nan=False)


def _overlaps(one, bounds):
    if bounds is None:
        return True
    kind, low, high = bounds
    assert kind == one.kind

    def key(value):
        return value.encode() if isinstance(value, str) else value

    above = low is not None and one.high is not None and key(low) > key(one.high)
    below = high is not None and one.low is not None and key(high) < key(one.low)
    return not above and not below


def _table(data):
    return pa.table(
        {
            column.path[0]: pa.array(data[column.path[0]], to_arrow_type(column.type))
            for column in COLUMNS
        }
    )


def _kept_by_arrow(data, predicate):
    table = _table(data).append_column("row", pa.array(range(len(data["i"]))))
    return table.filter(to_arrow(predicate))["row"].to_pylist()


@settings(max_examples=600)
@given(_cases())
def test_no_file_with_a_matching_row_is_pruned(case):
    data, text, stats_text = case
    predicate = parse_predicate(text, SCHEMA)
    rows = _kept_by_arrow(data, predicate)
    exact = [
        row
        for row in range(len(data["i"]))
        if evaluate(predicate, {name: values[row] for name, values in data.items()}) is True
    ]
    assert rows == exact
    stats = parse_stats(stats_text)
    if rows:
        assert may_match(predicate, stats)
        by_name = {column.physical[0]: column for column in COLUMNS}
        for one in index_ranges(predicate):
            assert _overlaps(one, index_bounds(stats, by_name[one.column]))


@settings(max_examples=300)
@given(_cases())
def test_partition_values_decide_exactly(case):
    data, text, _ = case
    predicate = parse_predicate(text, SCHEMA)
    values = {name: column[0] for name, column in data.items()}
    if values["s"] == "":
        values["s"] = None
    partition = {
        column.path[0]: None
        if values[column.path[0]] is None
        else print_partition_value(values[column.path[0]], column.type)
        for column in COLUMNS
    }
    assert may_match(predicate, None, partition) is (evaluate(predicate, values) is True)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_32_bit_bound_comes_back_bit_for_bit(value):
    column = COLUMNS[4]
    stats = parse_stats(
        build_stats(1, [(column, Summary(value, value, 0))], {}, tight_bounds=False)
    )
    assert round_to_float(value) == value
    assert index_bounds(stats, column) == ("num", value, value)


def test_a_filter_prunes_at_all():
    column = COLUMNS[0]
    stats = parse_stats(build_stats(2, [(column, Summary(10, 20, 0))], {}, tight_bounds=False))
    day = (dt.date(2026, 1, 1) - dt.date(1970, 1, 1)).days
    wanted = parse_predicate("i > 20 AND day = '2026-01-01'", SCHEMA)
    assert not may_match(wanted, stats, {"day": "2026-01-01"})
    assert may_match(parse_predicate("i > 19", SCHEMA), stats)
    assert [(one.column, one.low, one.high) for one in index_ranges(wanted)] == [
        ("i", 21.0, None),
        ("day", float(day), float(day)),
    ]
