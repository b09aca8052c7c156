"""Statistics that Arrow reads by columns give the index the same rows as reading each file's."""

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltasql.imports.load.stats_fill import bulk_index_rows
from deltasql.metastore.stats_index import StatsColumn, index_kind, index_rows
from deltasql.protocol.stats.parse import parse_stats
from stats_strategies import COLUMNS, RAW, written

PAIRS = [
    (StatsColumn(number, leaf.path[0], leaf.type.name, index_kind(leaf), 0, None), leaf)
    for number, leaf in enumerate(COLUMNS)
    if index_kind(leaf)
]
NAMES = [leaf.path[0] for _, leaf in PAIRS]
# what a column of the type usually holds, so that Arrow's way is taken often
USUAL = {
    "i": st.integers(-(2**54), 2**54),
    "b": st.integers(-128, 127),
    "d": st.integers(-1000, 1000),
    "x": st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([1e149, -1e151, 1e151]),
    "f": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "s": st.text(max_size=40) | st.text("ab\0", max_size=4) | st.text("aé", max_size=34),
    "day": st.dates().map(str) | st.sampled_from(["2024-02-30", "0999-01-01", " 2024-01-01"]),
    "ts": st.datetimes().map(lambda at: at.isoformat(timespec="milliseconds") + "Z"),
    "n": st.datetimes().map(lambda at: at.isoformat(timespec="milliseconds")),
}
BROKEN = st.sampled_from(
    [
        None,
        "",
        " ",
        "null",
        "[]",
        "{}",
        "{}{}",
        '{"minValues":null}',
        '{"minValues":[1],"maxValues":{"i":2}}',
        '{"minValues":{"i":1},"minValues":{"i":0},"maxValues":{"i":2}}',
        '{"minValues":{"i":1,\n"s":"a"},"maxValues":{"i":2,"s":"b"}}',
        '{"minValues":{"i":1},"maxValues":{"i":2}',
        '{"minValues":{"i":1},"maxValues":{"i":2}}\n',
        '{"minValues":{"s":"\\ud800"},"maxValues":{"s":"\\u0000"}}',
    ]
)


@st.composite
def usual(draw):
    """The statistics of one file as a writer writes them, now and then without a bound."""
    sides = {}
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        bounds = sorted((draw(USUAL[name]), draw(USUAL[name])), reverse=not draw(st.integers(0, 9)))
        for side, value in zip(("minValues", "maxValues"), bounds, strict=True):
            if draw(st.integers(0, 9)):
                sides.setdefault(side, {})[name] = value
    return json.dumps({"numRecords": 3, **sides, "nullCount": {"i": 0}})


@st.composite
def odd(draw):
    """Statistics with anything in the place of a bound."""
    name = draw(st.sampled_from(NAMES))
    low, high = written(draw(RAW)), written(draw(RAW))
    return f'{{"minValues":{{"{name}":{low}}},"maxValues":{{"{name}":{high}}}}}'


def check(texts: list[str | None]) -> None:
    numbers = list(range(100, 100 + len(texts)))
    expected = index_rows([parse_stats(text) for text in texts], numbers, PAIRS)
    found = bulk_index_rows(
        pa.chunked_array([pa.array(texts, pa.string())]),
        pa.chunked_array([pa.array(numbers, pa.int64())]),
        PAIRS,
    )
    assert found.num.to_pydict() == expected.num
    assert found.text.to_pydict() == expected.text


@given(st.lists(usual(), max_size=8))
def test_what_writers_write_is_read_alike(texts):
    check(texts)


@given(st.lists(usual() | odd() | BROKEN, max_size=6))
def test_whatever_stands_there_is_read_alike(texts):
    check(texts)


def test_long_and_deep_texts_are_read_alike():
    long = '{"minValues":{"s":"' + "a" * 70_000 + '"},"maxValues":{"s":"b"}}'
    deep = '{"maxValues":' + "[" * 30_000 + "]" * 30_000 + ',"minValues":{"i":1}}'
    check(['{"minValues":{"i":1},"maxValues":{"i":2}}', long, deep, None])


def test_files_without_columns_or_columns_without_files_give_no_rows():
    check([])
    nothing = bulk_index_rows(
        pa.chunked_array([pa.array(["{}"])]), pa.chunked_array([pa.array([1])]), []
    )
    assert nothing.num.num_rows == nothing.text.num_rows == 0
