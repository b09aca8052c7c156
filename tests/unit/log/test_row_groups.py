"""Row groups are cut at the same rows, whatever pieces the rows come in."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltasql.log.checkpoint_writer import cut, gather

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def batches(sizes: list[int]) -> list[pa.RecordBatch]:
    made, first = [], 0
    for size in sizes:
        numbers = list(range(first, first + size))
        texts = [None if n % 3 == 0 else "x" * n for n in numbers]
        made.append(pa.RecordBatch.from_arrays([numbers, texts], schema=SCHEMA))
        first += size
    return made


@given(sizes=st.lists(st.integers(0, 9)), rows=st.integers(1, 12), after=st.integers(0, 30))
def test_pieces_end_where_groups_do_and_hold_all_rows_in_order(sizes, rows, after):
    pieces = list(cut(batches(sizes), rows=rows, after=after))
    assert [n for piece in pieces for n in piece["n"].to_pylist()] == list(range(sum(sizes)))
    assert all(piece.num_rows for piece in pieces)
    ends, done = [], after
    for piece in pieces:
        assert done % rows + piece.num_rows <= rows
        done += piece.num_rows
        ends.append(done)
    assert all(end % rows == 0 for end in ends[:-1])


@given(sizes=st.lists(st.integers(0, 9)), rows=st.integers(1, 12))
def test_each_group_is_one_table_in_one_chunk(sizes, rows):
    given_tables = [pa.Table.from_batches([batch]) for batch in batches(sizes)]
    groups = list(gather(given_tables, SCHEMA, rows))
    full, rest = divmod(sum(sizes), rows)
    found = [group.num_rows for group in groups if group.num_rows]
    assert found == [rows] * full + ([rest] if rest else [])
    assert (
        pa.concat_tables(groups).to_pylist()
        == pa.Table.from_batches(batches([sum(sizes)])).to_pylist()
    )
    assert all(group.column("text").num_chunks <= 1 for group in groups)


def test_no_rows_are_one_empty_group():
    (group,) = gather([], SCHEMA, 5)
    assert (group.num_rows, group.schema) == (0, SCHEMA)
    assert list(cut([], rows=5)) == []
