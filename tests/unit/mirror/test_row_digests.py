"""Digests tell rows apart, and nothing else: not the pieces they come in, nor Arrow's buffers."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.mirror.checkpoints.check import ROW, RowsDigest, WrittenRows

TEXT = st.one_of(st.none(), st.text(max_size=4))
ROWS = st.lists(st.tuples(TEXT, st.one_of(st.none(), st.integers(0, 3)), TEXT), max_size=12)


def batch(rows) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * 3
    arrays = [pa.array(c, f.type) for c, f in zip(columns, ROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROW)


def digest(*parts: pa.RecordBatch):
    made = RowsDigest()
    for part in parts:
        made.take(part)
    return made.value()


@given(rows=ROWS, places=st.lists(st.integers(0, 12)))
def test_equal_rows_have_equal_digests_in_any_pieces(rows, places):
    ends = [0, *sorted(min(place, len(rows)) for place in places), len(rows)]
    whole = batch(rows)
    slices = [whole.slice(a, b - a) for a, b in pairwise(ends)]
    copies = [batch(rows[a:b]) for a, b in pairwise(ends)]
    assert digest(*slices) == digest(*copies) == digest(whole)


@given(one=ROWS, other=ROWS)
def test_other_rows_have_other_digests(one, other):
    assert (digest(batch(one)) == digest(batch(other))) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([("ab", 1, "c")], [("a", 1, "bc")]),
        ([("ab", 1, ""), ("c", 1, "")], [("a", 1, ""), ("bc", 1, "")]),
        ([("", 1, "")], [(None, 1, "")]),
        ([("a", 0, "")], [("a", None, "")]),
        ([("a", 1, ""), ("b", 2, "")], [("b", 2, ""), ("a", 1, "")]),
        ([("a", 1, "")], [("a", 1, ""), ("a", 1, "")]),
    ],
)
def test_what_only_looks_alike_has_another_digest(one, other):
    assert digest(batch(one)) != digest(batch(other))


def test_what_stands_in_a_null_place_does_not_count():
    garbage = pa.py_buffer(b"xyz")
    offsets = pa.py_buffer(b"\0\0\0\0\x03\0\0\0")
    null = pa.Array.from_buffers(pa.string(), 1, [pa.py_buffer(b"\0"), offsets, garbage])
    odd = pa.RecordBatch.from_arrays([null, pa.array([1]), pa.array([""])], schema=ROW)
    assert digest(odd) == digest(batch([(None, 1, "")]))


@given(sizes=st.lists(st.integers(0, 7)), head=st.integers(0, 9))
def test_written_rows_are_noted_by_the_group_they_fall_into(sizes, head):
    rows = [(f"p{n}", n, "") for n in range(sum(sizes))]
    written, start = WrittenRows(group_rows=5), 0
    written.skip(head)
    for size in sizes:
        part = batch(rows[start : start + size])
        written.take("add", part.rename_columns(["path", "size", "dv_id"]))
        start += size
    groups: dict[int, list] = {}
    for number, row in enumerate(rows):
        groups.setdefault((head + number) // 5, []).append(row)
    assert written.digests() == {(g, "add"): digest(batch(r)) for g, r in groups.items()}
