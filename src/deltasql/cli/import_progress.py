"""How an import shows how far it is: a bar on a terminal, lines elsewhere, or events as JSON."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from deltasql.cli.output import Output, clock_text, count_text, escape, size_text

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from deltasql.imports.load.loader import Progress

Clock = Callable[[], float]
# The rate is that of the last steps: a log whose commits grow is not what it was at its start.
_RECENT = 8
# Lines for a file or a pipe come no faster than this, in seconds.
_EVERY = 5.0
# The size of a database is a question to the server.
_SIZE_EVERY = 1.0


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast an import is, as far as that is known."""

    versions_per_second: float | None
    seconds_left: float | None


@dataclass(slots=True)
class Pace:
    """Measures the rate of the last steps; time comes from outside."""

    started: float
    _marks: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_RECENT))

    def take(self, now: float, progress: Progress) -> Speed:
        """Note one more step and return the speed."""
        if not self._marks:
            self._marks.append((self.started, 0))
        done = progress.counts.versions
        if done > self._marks[-1][1]:
            self._marks.append((now, done))
        (since, before), (until, reached) = self._marks[0], self._marks[-1]
        if reached == before or until <= since:
            return Speed(None, None)
        rate = (reached - before) / (until - since)
        return Speed(rate, max(0, progress.head - progress.version) / rate)


@dataclass(frozen=True, slots=True)
class Shown:
    """One moment of an import, ready to be shown."""

    table: str
    progress: Progress
    seconds: float
    speed: Speed
    database_bytes: int | None

    @property
    def rows(self) -> int:
        """All actions so far, files of a checkpoint too."""
        return self.progress.counts.actions + self.progress.counts.state_files

    @property
    def done(self) -> tuple[int, int]:
        """How many versions of how many."""
        now = self.progress
        is_begun = now.counts.versions > 0 or now.version > now.first
        return (now.version - now.first + 1 if is_begun else 0), now.head - now.first + 1

    @property
    def status(self) -> str:
        """What is being done, such as `Importing version 500...`."""
        now = self.progress
        return f"{now.step} {now.version}..." if now.step.endswith("version") else f"{now.step}..."

    def bar(self) -> str:
        """Return how far it is, such as `750/1000 versions (75%)`."""
        done, total = self.done
        return f"{done}/{total} versions ({100 * done // max(total, 1)}%)"

    def details(self, waited: float = 0.0) -> str:
        """Return rate, rows, size and what is left, so long after this moment."""
        rate, left = self.speed.versions_per_second, self.speed.seconds_left
        parts = [f"{rate:,.0f} versions/s"] if rate is not None else []
        parts.append(count_text(self.rows, "action"))
        if self.database_bytes is not None:
            parts.append(f"database {size_text(self.database_bytes)}")
        if left:
            parts.append(f"ETA {clock_text(left - waited)}")
        return ", ".join(parts)

    def facts(self) -> dict[str, Any]:
        """Return the moment for programs."""
        now, (done, total) = self.progress, self.done
        return {
            "event": "progress",
            "table": self.table,
            "step": now.step,
            "version": now.version,
            "first_version": now.first,
            "head_version": now.head,
            "versions_done": done,
            "versions_total": total,
            "actions": self.rows,
            "seconds": round(self.seconds, 3),
            "versions_per_second": self.speed.versions_per_second,
            "seconds_left": self.speed.seconds_left,
            "database_bytes": self.database_bytes,
        }


class Screen(Protocol):
    """Where moments are shown."""

    def show(self, moment: Shown) -> None:
        """Show one moment."""

    def close(self) -> None:
        """Leave the screen as it should stay."""


@dataclass(slots=True)
class Watch:
    """Follows one import for a screen: measures its pace and asks for the database's size."""

    table: str
    screen: Screen
    database_bytes: Callable[[], int] | None = None
    clock: Clock = time.monotonic
    started: float = field(init=False)
    _pace: Pace = field(init=False)
    _size: tuple[float, int] | None = None

    def __post_init__(self) -> None:
        """Start the clock."""
        self.started = self.clock()
        self._pace = Pace(self.started)

    def __call__(self, progress: Progress) -> None:
        """Take a step of the import and show it."""
        now = self.clock()
        speed = self._pace.take(now, progress)
        seconds = now - self.started
        self.screen.show(Shown(self.table, progress, seconds, speed, self._measure(now)))

    def _measure(self, now: float) -> int | None:
        if self.database_bytes is None:
            return None
        if self._size is None or now - self._size[0] >= _SIZE_EVERY:
            self._size = (now, self.database_bytes())
        return self._size[1]


@dataclass(slots=True)
class Lines:
    """Plain lines on stderr: one for each new step, then one now and then."""

    out: Output
    _last: tuple[str, str, float] | None = None

    def show(self, moment: Shown) -> None:
        """Say something if it is new or some time has passed."""
        step = moment.progress.step
        last = self._last
        is_same = last is not None and last[:2] == (moment.table, step)
        if is_same and last is not None and moment.seconds - last[2] < _EVERY:
            return
        self._last = (moment.table, step, moment.seconds)
        self.out.note(f"{moment.table}: {moment.status} {moment.bar()}, {moment.details()}")

    def close(self) -> None:
        """Lines stay."""


@dataclass(slots=True)
class Events:
    """One JSON object per step on stdout, at once."""

    out: Output

    def show(self, moment: Shown) -> None:
        """Print the step."""
        self.out.record(moment.facts())
        self.out.stdout.flush()

    def close(self) -> None:
        """Events stay."""


class Bar:
    """A bar on a terminal, with what is being done above it and the numbers below."""

    def __init__(self, out: Output, clock: Clock = time.monotonic) -> None:
        from rich.console import Console

        self._clock = clock
        self._console = Console(file=out.stderr, no_color=not out.has_color, highlight=False)
        self._rich: RichProgress | None = None
        self._task: TaskID | None = None

    def show(self, moment: Shown) -> None:
        """Draw the bar anew."""
        if self._rich is None or self._task is None:
            self._rich = _two_lines(self._console)
            self._rich.start()
            self._task = self._rich.add_task("", numbers="", details=str, total=None)
        shown = self._clock()
        done, total = moment.done
        self._rich.update(
            self._task,
            description=escape(f"{moment.table}: {moment.status}"),
            total=total,
            completed=done,
            numbers=moment.bar(),
            details=lambda: moment.details(self._clock() - shown),
        )

    def close(self) -> None:
        """Take the bar away: the summary says it all."""
        if self._rich is not None:
            self._rich.stop()
            self._rich = self._task = None


def screen_for(out: Output) -> Screen:
    """Return how progress is shown: as events, as a bar, or as lines."""
    if out.format == "ndjson":
        return Events(out)
    if out.is_quiet or not out.stderr.isatty():
        return Lines(out)
    return Bar(out)


def _two_lines(console: Any) -> RichProgress:
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TimeElapsedColumn
    from rich.text import Text

    class Numbers(ProgressColumn):
        """What stands behind the bar."""

        def render(self, task: Task) -> Text:
            return Text(str(task.fields["numbers"]), no_wrap=True)

    class Whole(Progress):
        """A line of words above each bar, a line of numbers below."""

        def get_renderables(self) -> Any:
            for task in self.tasks:
                yield Text(task.description)
                yield self.make_tasks_table([task])
                yield Text(task.fields["details"]())

    columns = (BarColumn(bar_width=40), Numbers(), TimeElapsedColumn())
    return Whole(*columns, console=console, transient=True, expand=False)
