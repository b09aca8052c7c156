"""What an import shows while it runs, with a clock from outside."""

import io
import json

import pytest

from deltasql.cli.import_progress import Bar, Events, Lines, Pace, Watch, screen_for
from deltasql.cli.output import Output
from deltasql.imports.load.loader import LoadCounts, Progress

pytestmark = pytest.mark.req("R72")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def step(done, total=1000, words="Importing version", first=0, state_files=0):
    counts = LoadCounts(versions=done, actions=done * 3, state_files=state_files)
    return Progress(words, first + max(done - 1, 0), first, first + total - 1, counts)


def watched(screen, times, **given):
    clock = iter(times)
    return Watch("orders", screen, clock=lambda: next(clock), **given)


def printed(form="text", stream=io.StringIO):
    return Output(stream(), stream(), form)


def test_the_rate_is_that_of_the_last_steps():
    pace = Pace(0.0)
    assert pace.take(0.0, step(0)).versions_per_second is None
    assert pace.take(1.0, step(100)).versions_per_second == 100
    for number in range(2, 12):  # slower from now on
        speed = pace.take(1.0 + 10 * (number - 1), step(100 + 10 * (number - 1)))
    assert speed.versions_per_second == 1
    assert speed.seconds_left == pytest.approx(1000 - 200)


def test_no_rate_is_told_of_nothing():
    pace = Pace(0.0)
    assert pace.take(5.0, step(0)).seconds_left is None
    assert pace.take(5.0, step(0, words="Reading checkpoint", state_files=9)).seconds_left is None


def test_lines_come_with_each_step_and_then_now_and_then():
    out = printed()
    watch = watched(Lines(out), [0, 1, 2, 7, 8], database_bytes=lambda: 12_300_000)
    for done in (250, 500, 750):
        watch(step(done))
    watch(step(1000, words="Validating"))
    told = [line.split(", ") for line in out.stderr.getvalue().splitlines()]
    size = "database 12.3 MB"
    first, second, third = told
    assert first[0] == "orders: Importing version 249... 250/1000 versions (25%)"
    assert first[1:] == ["250 versions/s", "750 actions", size, "ETA 0:00:03"]
    assert second[0] == "orders: Importing version 749... 750/1000 versions (75%)"
    assert second[1:] == ["107 versions/s", "2,250 actions", size, "ETA 0:00:02"]
    assert third[0] == "orders: Validating... 1000/1000 versions (100%)"
    assert third[1:] == ["125 versions/s", "3,000 actions", size]
    assert out.stdout.getvalue() == ""


def test_events_are_json_one_per_line():
    out = printed("ndjson")
    watch = watched(Events(out), [0, 2, 4], database_bytes=lambda: 7)
    watch(step(0, words="Reading checkpoint", first=10, state_files=40))
    watch(step(500, first=10))
    first, second = (json.loads(line) for line in out.stdout.getvalue().splitlines())
    assert (first["step"], first["actions"], first["versions_done"]) == (
        "Reading checkpoint",
        40,
        0,
    )
    assert first["seconds_left"] is None
    assert (second["version"], second["versions_done"], second["versions_total"]) == (
        509,
        500,
        1000,
    )
    assert second["versions_per_second"] == 125
    assert second["seconds_left"] == 4
    assert second["database_bytes"] == 7


def test_the_size_is_asked_for_once_a_second_at_most():
    asked = []
    watch = watched(
        Lines(printed()), [0, 0.1, 0.2, 0.9, 1.2], database_bytes=lambda: asked.append(1)
    )
    for done in (1, 2, 3, 4):
        watch(step(done))
    assert len(asked) == 2


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")


def test_a_terminal_gets_a_bar_that_goes_again(wide):
    out = printed(stream=Terminal)
    screen = screen_for(out)
    assert isinstance(screen, Bar)
    watch = watched(screen, [0, 1, 2], database_bytes=lambda: 12_300_000)
    watch(step(500))
    watch(step(750))
    screen.close()
    drawn = out.stderr.getvalue()
    assert "Importing version 749..." in drawn
    assert "750/1000 versions (75%)" in drawn
    assert "375 versions/s, 2,250 actions, database 12.3 MB, ETA 0:00:01" in drawn
    assert "━" in drawn
    screen.close()
    assert out.stderr.getvalue() == drawn


@pytest.mark.parametrize(
    ("out", "kind"),
    [
        (printed(), Lines),
        (printed("json"), Lines),
        (printed("ndjson", Terminal), Events),
        (Output(Terminal(), Terminal(), is_quiet=True), Lines),
    ],
)
def test_what_is_no_terminal_gets_lines_or_events(out, kind):
    assert isinstance(screen_for(out), kind)


def test_quiet_says_nothing():
    out = Output(io.StringIO(), io.StringIO(), is_quiet=True)
    watched(screen_for(out), [0, 1])(step(5))
    assert out.stderr.getvalue() == out.stdout.getvalue() == ""


def test_a_table_cannot_drive_the_terminal(wide):
    out = printed(stream=Terminal)
    watch = Watch("a\x1b[2Jb", screen_for(out))
    watch(step(1))
    watch.screen.close()
    assert "\x1b[2Jb" not in out.stderr.getvalue()
