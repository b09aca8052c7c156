"""Every range that overlaps a question is found by its reach, whatever its width."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.metastore.stats_index import POINT, UNBOUNDED, least_low, reach_of, reaches_of

FINITE = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e150, max_value=1e150)
ENDS = st.one_of(FINITE, st.integers(-(2**54), 2**54).map(float), st.just(math.inf))


@st.composite
def ranges(draw):
    low = draw(st.one_of(FINITE, st.integers(-(2**54), 2**54).map(float), st.just(-math.inf)))
    if math.isinf(low):
        return low, draw(ENDS)
    width = draw(st.one_of(st.just(0.0), st.floats(0, 1e150), st.integers(0, 2**54).map(float)))
    return low, draw(st.sampled_from([low + width, math.nextafter(low, math.inf), math.inf, low]))


@given(ranges(), st.one_of(FINITE, st.just(-math.inf)))
def test_a_range_that_ends_behind_the_question_begins_where_its_reach_says(found, low):
    reach = reach_of(*found)
    if found[1] >= low:
        assert found[0] >= least_low(reach, low)
    if math.isfinite(found[0]) and found[1] >= found[0]:
        assert found[0] >= least_low(reach, found[1])  # the question begins where the range ends


@given(ranges())
def test_the_width_is_below_the_power_of_two(found):
    reach, width = reach_of(*found), found[1] - found[0]
    if reach not in {POINT, UNBOUNDED}:
        assert math.ldexp(0.5, reach) <= width < math.ldexp(1.0, reach)
    assert (reach == UNBOUNDED) == math.isinf(width)
    assert (reach == POINT) == (width == 0)


@given(st.lists(ranges(), max_size=20))
def test_many_ranges_have_the_reaches_of_each(found):
    lows, highs = (np.array([one[side] for one in found], np.float64) for side in (0, 1))
    assert reaches_of(lows, highs).tolist() == [reach_of(*one) for one in found]


@pytest.mark.parametrize(("low", "high"), [(5.0, 3.0), (2.0, 2.0), (1e150, -1e150)])
def test_a_reversed_range_is_a_point(low, high):
    """Files may say so; such a file is kept by every filter that lies between."""
    assert reach_of(low, high) == POINT
    assert reaches_of(np.array([low]), np.array([high])).tolist() == [POINT]
