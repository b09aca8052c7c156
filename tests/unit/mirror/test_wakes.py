"""When a worker looks for work, and what it does where no sign arrives."""

import threading
from itertools import pairwise

import pytest

from deltasql.errors import CatalogUnavailableError
from deltasql.mirror.after_commit import CommitHinter
from deltasql.mirror.engine import Backoff
from deltasql.mirror.worker.limits import WorkSignal
from ticking import Clock, Stop


class Watch:
    """Signs by hand; the time that is waited passes on the clock."""

    def __init__(self, clock: "Clock") -> None:
        self.clock, self.signs, self.is_lost, self.is_closed = clock, 0, False, False

    def heard(self, seconds: float) -> bool:
        if self.is_lost:
            raise CatalogUnavailableError("gone")
        self.clock.now += seconds
        signs, self.signs = self.signs, 0
        return signs > 0

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened() -> list[Watch]:
    return []


@pytest.fixture
def wakes(clock, opened) -> WorkSignal:
    def open_watch() -> Watch:
        opened.append(Watch(clock))
        return opened[-1]

    return WorkSignal(open_watch, Backoff(1.0, 60.0, lambda: 1.0), clock)


def test_a_sign_wakes_long_before_the_poll(wakes, clock, opened):
    wakes.listen()
    opened[0].signs = 7
    assert wakes.wait(60.0, Stop(clock))
    assert clock.now < 0.2


def test_without_a_sign_the_poll_comes(wakes, clock):
    wakes.listen()
    assert not wakes.wait(1.0, Stop(clock))
    assert clock.now == pytest.approx(1.0)


def test_a_look_that_is_dear_is_not_repeated_so_soon(wakes, clock, opened):
    """However many signs come, looking takes at most a tenth of the time."""
    wakes.listen()
    opened[0].signs = 1
    assert wakes.wait(60.0, Stop(clock), look_s=0.5)
    assert 5.0 <= clock.now < 5.2


def test_a_lost_watch_falls_back_to_the_poll_and_is_opened_again_later(wakes, clock, opened):
    stop = Stop(clock)
    wakes.listen()
    opened[0].is_lost = True
    assert not wakes.wait(0.9, stop)
    assert clock.now == pytest.approx(0.9, abs=0.06)
    assert opened[0].is_closed
    assert not wakes._watch
    wakes.listen()
    assert len(opened) == 1  # the backoff's first pause is a second
    clock.now += 1.0
    wakes.listen()
    assert wakes._watch
    assert len(opened) == 2


def test_attempts_to_listen_grow_rare_while_they_fail(wakes, clock):
    tries = []

    def refused():
        tries.append(clock.now)
        raise CatalogUnavailableError("no server")

    wakes.open_watch = refused
    while clock.now < 200:
        wakes.listen()
        clock.now += 0.5
    assert not wakes._watch
    gaps = [b - a for a, b in pairwise(tries)]
    assert gaps == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_something_that_got_free_wakes_at_once(wakes, clock):
    wakes.freed.set()
    assert wakes.wait(60.0, Stop(clock))
    assert clock.now < 0.2
    assert not wakes.freed.is_set()


def test_stopping_ends_the_wait(wakes, clock):
    stop = Stop(clock)
    stop.set()
    assert not wakes.wait(60.0, stop)
    assert clock.now < 0.2


def test_hints_that_gather_are_sent_together():
    sent, begin, first = [], threading.Event(), threading.Event()

    def send(tables):
        sent.append(list(tables))
        first.set()
        assert begin.wait(30)

    hinter = CommitHinter(send, every_s=0.0)
    hinter.hint("a")
    assert first.wait(30)
    for _ in range(1000):
        hinter.hint("b")
        hinter.hint("a")
    begin.set()
    hinter.close()
    assert sent == [["a"], ["a", "b"]]
    hinter.hint("c")
    assert len(sent) == 2


def test_a_hint_that_fails_is_dropped_and_the_next_ones_wait_for_the_end_at_the_latest():
    tried = []

    def send(tables):
        tried.append(list(tables))
        raise CatalogUnavailableError("gone")

    hinter = CommitHinter(send, every_s=0.0, monotonic=lambda: 0.0)
    hinter.hint("a")
    while not tried:
        pass
    hinter.hint("b")
    hinter.close()
    assert tried == [["a"], ["b"]]
