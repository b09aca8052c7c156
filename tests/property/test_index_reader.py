"""The short way to a file's bounds says what the long one says."""

from hypothesis import example, given
from hypothesis import strategies as st

from deltasql.protocol.stats.parse import index_bounds, index_reader, parse_stats
from stats_strategies import COLUMNS, RAW, written


@given(low=RAW, high=RAW, is_same=st.booleans())
@example(low="4254-01-01T00:00:00.000Z", high=None, is_same=True)  # no double is that microsecond
def test_both_ways_give_the_same_bounds(low, high, is_same):
    texts = [written(low), written(low if is_same else high)]
    for column in COLUMNS:
        name = column.path[0]
        stats = parse_stats(
            f'{{"minValues":{{"{name}":{texts[0]}}},"maxValues":{{"{name}":{texts[1]}}}}}'
        )
        told = index_bounds(stats, column)
        found = index_reader(column)(stats)
        assert found == (told[1:] if told else (None, None))
        assert [type(one) for one in found] == [type(one) for one in (told or (0, None, None))[1:]]


def test_no_statistics_are_no_bounds():
    for column in COLUMNS:
        assert index_reader(column)(None) == (None, None)
