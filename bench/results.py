"""What a run measures, as values: rounds, rows, bars, cases, and the plan of the run."""

import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
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
    def least(cls, text: str, measured: float | None, limit: float) -> Self:
        holds = None if measured is None else measured >= limit
        return cls(text, measured, f"at least {limit:g}x", holds)

    @classmethod
    def most(cls, text: str, measured: float | None, limit: float) -> Self:
        holds = None if measured is None else measured <= limit
        return cls(text, measured, f"at most {limit:g}", holds)


@dataclass(frozen=True)
class Case:
    """One table of the report."""

    name: str
    title: str
    unit: str
    rows: list[Row]
    bars: list[Bar]
    how: str


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
                "pg_words": f"host={self.server.host} port={self.server.port} user=postgres "
                f"dbname={name}",
            }
        return place

    def make_database(self, name: str) -> None:
        """Make a contender's database anew."""
        self.drop_database(name)
        self._admin(f"create database {name}")

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
