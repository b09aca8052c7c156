"""What a run measures, as values: rounds, rows, bars, cases, and the plan of the run."""

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
        good = [one for one in found if one.value > 0]
        note = next((one.note for one in found if one.note), "" if found else "not to be had")
        if not good:
            return cls(label, None, None, None, None, more, note)
        values = [one.value for one in good]
        rss = round(statistics.median([one.rss_mb for one in good]))
        return cls(label, statistics.median(values), min(values), max(values), rss, more, note)


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
    _said: list[str] = field(default_factory=list)

    @property
    def rounds(self) -> int:
        return 3

    @property
    def commit_seconds(self) -> float:
        return 3.0 if self.is_quick else 60.0

    @property
    def list_rounds(self) -> int:
        return 3 if self.is_quick else 5

    def has(self, contender: str) -> bool:
        return "postgres" not in contender or self.server is not None

    def place(self, folder: Path, schema: str) -> dict[str, Any]:
        """Return where a contender finds its files and databases, as JSON can carry it."""
        place = {
            "dir": str(folder),
            "schema": schema,
            "sqlite_uri": f"deltasql://sqlite/{folder}/catalog.db",
        }
        if self.server is not None:
            place |= {
                "pg_uri": self.server.uri("postgres", schema),
                "pg_dsn": self.server.dsn(),
                "pg_words": f"host={self.server.host} port={self.server.port} user=postgres "
                "dbname=postgres",
            }
        return place

    def drop_schemas(self, prefix: str) -> None:
        """Drop the schemas that a round has made."""
        if self.server is None:
            return
        import psycopg

        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            for name in (prefix, f"{prefix}_dl"):
                connection.execute(f"drop schema if exists {name} cascade")

    def say(self, text: str) -> None:
        print(f"  {text.strip()}", file=sys.stderr, flush=True)
