"""Very many rows are read in parts that hold every number once."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.database.sqlite import number_ranges, read_side_by_side


@given(st.integers(0, 2**40), st.integers(0, 2**40), st.integers(1, 64))
def test_the_ranges_hold_every_number_once(first, more, cores):
    ranges = number_ranges(first, first + more, cores=cores)
    assert ranges[0][0] <= 0
    assert ranges[-1][1] > 2**62
    assert [high for _, high in ranges[:-1]] == [low for low, _ in ranges[1:]]
    assert all(low < high for low, high in ranges)


def test_few_rows_are_read_at_once():
    assert len(number_ranges(1, 5_000, cores=8)) == 1
    assert len(number_ranges(None, None, cores=8)) == 1


def test_many_rows_are_shared_out_evenly():
    (_, half), (again, _) = number_ranges(1, 1_000_000, cores=2)
    assert half == again == 500_001


def test_batches_come_in_the_order_of_their_readers():
    schema = pa.schema([("n", pa.int64())])

    def batches(start):
        for n in range(start, start + 3):
            yield pa.record_batch([[n]], schema=schema)

    found = read_side_by_side([lambda: batches(0), lambda: batches(3)])
    assert pa.Table.from_batches(found).column("n").to_pylist() == [0, 1, 2, 3, 4, 5]


def test_a_reader_that_fails_fails_the_whole():
    def broken():
        raise ValueError("torn")
        yield

    with pytest.raises(ValueError, match="torn"):
        read_side_by_side([lambda: iter(()), broken])
