"""What a run measures, as values: rounds, rows, bars, cases, and the plan of the run."""

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True)
class Measured:
    """One round of one contender."""

    value: float
    rss_mb: int
    failed: int = 0
    note: str = ""
    is_broken: bool = False


def ratio(one: float | None, other: float | None) -> float | None:
    """Return one figure as a multiple of another, None where either is missing."""
    return one / other if one and other else None


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the smallest value that so large a share (0 to 1) of all lies at or below."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)] if ordered else None


def median_of(found: Sequence[Measured]) -> float | None:
    """Return the median of the rounds; a round that broke leaves no figure at all."""
    if not found or any(one.is_broken for one in found):
        return None
    return statistics.median([one.value for one in found])


@dataclass(frozen=True)
class Row:
    """A contender's line in a table: the median of its rounds."""

    label: str
    value: float | None
    lowest: float | None
    highest: float | None
    rss_mb: int | None
    more: dict[str, Any]
    note: str = ""

    @classmethod
    def of(cls, label: str, found: Sequence[Measured], more: dict[str, Any]) -> Self:
        note = next((one.note for one in found if one.note), "" if found else "not to be had")
        middle = median_of(found)
        if middle is None:
            return cls(label, None, None, None, None, more, note)
        values = [one.value for one in found]
        rss = round(statistics.median([one.rss_mb for one in found]))
        return cls(label, middle, min(values), max(values), rss, more, note)


@dataclass(frozen=True)
class Bar:
    """A promise, what was measured, and whether it holds."""

    text: str
    measured: float | None
    wanted: str
    holds: bool | None

    @classmethod
    def least(cls, text: str, measured: float | None, limit: float, unit: str = "x") -> Self:
        holds = None if measured is None else measured >= limit
        return cls(text, measured, f"at least {limit:g}{unit}", holds)

    @classmethod
    def most(cls, text: str, measured: float | None, limit: float, unit: str = "") -> Self:
        holds = None if measured is None else measured <= limit
        return cls(text, measured, f"at most {limit:g}{unit}", holds)


@dataclass(frozen=True)
class Curve:
    """A line of a case's picture: `points` are (value, share of all that lie at or below it)."""

    label: str
    points: list[list[float]]


@dataclass(frozen=True)
class Case:
    """One table of the report, with a picture of its distributions where it has `curves`."""

    name: str
    title: str
    unit: str
    rows: list[Row]
    bars: list[Bar]
    how: str
    curves: list[Curve] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """Sizes and places of one run; `server` is None where PostgreSQL cannot be had."""

    home: Path
    server: Any
    is_quick: bool
    source: str = ""

    @property
    def rounds(self) -> int:
        return 3

    @property
    def commit_seconds(self) -> float:
        return 3.0 if self.is_quick else 60.0

    @property
    def writers_seconds(self) -> float:
        return 3.0 if self.is_quick else 20.0

    @property
    def list_rounds(self) -> int:
        return 3 if self.is_quick else 5

    @property
    def mirror_rounds(self) -> int:
        return 1 if self.is_quick else 3

    @property
    def spark_rounds(self) -> int:
        return 1 if self.is_quick else 5

    @property
    def warm_rounds(self) -> int:
        """Rounds that only warm the page cache."""
        return 0 if self.is_quick else 1

    def pairs(self, modes: Sequence[str], backends: Sequence[str]) -> list[tuple[str, str]]:
        """Return (backend, mode) of all that can be had; a quick run tries each of them once."""
        every = [(b, mode) for mode in modes for b in backends if self.has(b)]
        if not self.is_quick:
            return every
        chosen = dict(zip(backends, modes, strict=True))
        return [(b, mode) for b, mode in every if chosen[b] == mode]

    def has(self, contender: str) -> bool:
        return "postgres" not in contender or self.server is not None

    def place(self, folder: Path, name: str) -> dict[str, Any]:
        """Return where a contender finds its files and its own database, as JSON can carry it.

        A database of its own: ADBC reads all types of a database when it connects, so tables of
        others would slow it down.
        """
        place = {
            "dir": str(folder),
            "name": name,
            "sqlite_uri": f"deltasql://sqlite/{folder}/catalog.db",
        }
        if self.server is not None:
            place |= {
                "pg_uri": self.server.uri(name),
                "pg_dsn": self.server.dsn(name),
                "pg_pid": self.server.pid,
                "pg_words": f"host={self.server.host} port={self.server.port} user=postgres "
                f"dbname={name}",
            }
        return place

    def make_database(self, name: str) -> None:
        """Make a contender's database anew."""
        self.drop_database(name)
        self._admin(f"create database {name}")

    def copy_database(self, source: str, name: str) -> None:
        """Make a database that holds what another one does, which nobody may have open."""
        self._admin(f"create database {name} template {source}")

    def drop_database(self, name: str) -> None:
        self._admin(f"drop database if exists {name} with (force)")

    def has_database(self, name: str) -> bool:
        return bool(self._admin(f"select 1 from pg_database where datname = '{name}'"))

    def _admin(self, statement: str) -> list[Any]:
        if self.server is None:
            return []
        import psycopg

        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            done = connection.execute(statement)
            return done.fetchall() if done.description else []

    def say(self, text: str) -> None:
        print(f"  {text.strip()}", file=sys.stderr, flush=True)
