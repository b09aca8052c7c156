"""A worker's limit: a bucket of tokens over a clock of the test's own."""

from itertools import pairwise

import pytest

from deltasql.mirror.worker.limits import RateLimiter

pytestmark = pytest.mark.req("R33")


class Clock:
    """Time that passes only where somebody waits."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return False


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_no_limit_lets_everything_through_at_once():
    assert RateLimiter.per_second(0).try_take(10**6) == (10**6, 0.0)
    assert not RateLimiter.per_minute(0).is_limited


def test_a_second_is_the_most_that_is_saved_up(clock):
    rate = RateLimiter(5.0, 5.0, monotonic=clock)
    clock.now += 3600
    assert rate.try_take(200) == (5, 0.0)
    assert rate.try_take(200) == (0, pytest.approx(0.2))


@pytest.mark.parametrize(("per_second", "count"), [(1, 10), (7, 100), (50, 1000)])
def test_however_much_is_wanted_the_rate_holds(clock, per_second, count):
    rate = RateLimiter(float(per_second), float(per_second), monotonic=clock)
    started, done = clock.now, 0
    while done < count:
        done += rate.take(200, clock.wait)
    assert clock.now - started >= (count - per_second) / per_second - 1e-6
    assert clock.now - started <= count / per_second + 1


def test_so_many_a_minute_are_spread_evenly(clock):
    rate = RateLimiter(6 / 60, monotonic=clock)
    moments = []
    for _ in range(4):
        rate.take(1, clock.wait)
        moments.append(clock.now)
    assert [b - a for a, b in pairwise(moments)] == pytest.approx([10.0] * 3)


def test_what_was_not_used_is_given_back_and_never_more(clock):
    rate = RateLimiter(5.0, 5.0, monotonic=clock)
    assert rate.try_take(5) == (5, 0.0)
    rate.give_back(2)
    assert rate.try_take(5) == (2, 0.0)
    rate.give_back(50)
    assert rate.try_take(50) == (5, 0.0)


def test_whoever_waits_is_let_go_at_the_end(clock):
    rate = RateLimiter(1.0, monotonic=clock)
    assert rate.take(1, clock.wait) == 1
    assert rate.take(1, lambda _: True) == 0
