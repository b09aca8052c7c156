"""How commands print: data on stdout as text, JSON or NDJSON; everything else on stderr.

Rich is imported only for a table on a terminal. Whatever a table or a log says is printed with
its control characters escaped: a name must not be able to drive the terminal.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TextIO

if TYPE_CHECKING:
    import pyarrow as pa

Format = Literal["text", "json", "ndjson"]
Row = Mapping[str, Any]
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

_THOUSAND = 1000
_MINUTE, _HOUR = 60, 3600
_FEW = 10


@dataclass(frozen=True, slots=True)
class Output:
    """Where and how a command prints."""

    stdout: TextIO
    stderr: TextIO
    format: Format = "text"
    is_quiet: bool = False
    has_color: bool = False

    def rows(self, rows: Iterable[Row], columns: Sequence[str] | None = None) -> None:
        """Print a list: a table, a JSON array, or one JSON object per line."""
        if self.format == "ndjson":
            for row in rows:
                self._line(self._json(row))
        elif self.format == "json":
            self._line("[" + ",\n ".join(self._json(row) for row in rows) + "]")
        else:
            self._table([dict(row) for row in rows], columns)

    def record(self, row: Row) -> None:
        """Print one thing: a line per field, or a JSON object."""
        if self.format != "text":
            self._line(self._json(row))
            return
        width = max((len(key) for key in row), default=0)
        for key, value in row.items():
            self._line(f"{key:<{width}}  {_to_text(value)}".rstrip())

    def describe(self, row: Row) -> None:
        """Print one thing with parts: a line per field, then each part as a table below its name.

        A mapping becomes lines of its own, a list of mappings a table; an empty one has no part.
        """
        if self.format != "text":
            self._line(self._json(row))
            return
        parts = {key: value for key, value in row.items() if _is_part(value)}
        self.record({key: _joined(value) for key, value in row.items() if key not in parts})
        for key, value in parts.items():
            self._line(f"\n{escape(key)}")
            if isinstance(value, list):
                self._part(value, has_names=True)
            else:
                pairs = [{"name": name, "value": one} for name, one in value.items()]
                self._part(pairs, has_names=False)

    def _part(self, rows: list[dict[str, Any]], *, has_names: bool) -> None:
        names = list(dict.fromkeys(key for row in rows for key in row))
        cells = [[_to_text(_joined(row.get(name))) for name in names] for row in rows]
        lines = [names, *cells] if has_names else cells
        widths = [max(len(line[place]) for line in lines) for place in range(len(names))]
        for line in lines:
            padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
            self._line(f"  {'  '.join(padded)}".rstrip())

    def done(self, sentence: str, row: Row) -> None:
        """Tell what was done: a sentence for people on stderr, or its facts as JSON on stdout."""
        if self.format == "text":
            self.note(sentence)
        else:
            self._line(self._json(row))

    def note(self, sentence: str) -> None:
        """Say something on stderr that is not data; `--quiet` silences it."""
        if not self.is_quiet:
            print(escape(sentence), file=self.stderr, flush=True)

    def warn(self, sentence: str) -> None:
        """Print a warning on stderr, as JSON where data is; `--quiet` silences it."""
        if self.format == "text":
            self.note(f"warning: {sentence}")
        else:
            self.note(self._json({"warning": sentence}))

    def raw(self, text: str) -> None:
        """Print a text as it is, such as a script for the shell."""
        self.stdout.write(text)

    def _json(self, row: Row) -> str:
        encoding = (getattr(self.stdout, "encoding", None) or "utf-8").lower()
        return _to_json(row, is_ascii=not encoding.startswith("utf"))

    def _line(self, text: str) -> None:
        self.stdout.write(text + "\n")

    def _table(self, rows: list[dict[str, Any]], columns: Sequence[str] | None) -> None:
        names = (
            list(columns) if columns else list(dict.fromkeys(key for row in rows for key in row))
        )
        if not names:
            return
        cells = [[_to_text(row.get(name)) for name in names] for row in rows]
        right = [all(_is_number(row.get(name)) for row in rows) for name in names]
        lengths = [[len(cell) for cell in line] for line in [names, *cells]]
        widths = [max(column) for column in zip(*lengths, strict=True)]
        if self.stdout.isatty():
            if sum(widths) + 2 * (len(widths) - 1) > shutil.get_terminal_size().columns:
                self._records(names, cells)
            else:
                self._rich_table(names, cells, right)
            return
        for line in [names, *cells]:
            padded = [
                text.rjust(width) if is_right else text.ljust(width)
                for text, width, is_right in zip(line, widths, right, strict=True)
            ]
            self._line("  ".join(padded).rstrip())

    def _records(self, names: list[str], cells: list[list[str]]) -> None:
        """Print rows one below the other, a line per column: no column is lost or cut."""
        width = max(map(len, names))
        for number, row in enumerate(cells, 1):
            self._line(f"-- {number}")
            for name, text in zip(names, row, strict=True):
                self._line(f"{name:<{width}}  {text}".rstrip())

    def _rich_table(self, names: list[str], cells: list[list[str]], right: list[bool]) -> None:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold" if self.has_color else "")
        for name, is_right in zip(names, right, strict=True):
            table.add_column(Text(name), justify="right" if is_right else "left", overflow="fold")
        for row in cells:
            table.add_row(*map(Text, row))  # Text: markup in a value stays text
        Console(file=self.stdout, no_color=not self.has_color, highlight=False).print(table)


def _is_part(value: object) -> bool:
    is_table = isinstance(value, list) and all(isinstance(one, dict) for one in value)
    return bool(value) and (isinstance(value, dict) or is_table)


def _joined(value: Any) -> Any:
    """Return a list of plain values as one text."""
    if isinstance(value, list | tuple) and not any(isinstance(one, dict | list) for one in value):
        return ", ".join(map(_to_text, value))
    return value


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def escape(text: str) -> str:
    """Return the text with its control characters spelled out."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def _to_text(value: Any) -> str:
    plain = _plain(value)
    if plain is None:
        return ""
    if isinstance(plain, bool):
        return "yes" if plain else "no"
    if isinstance(plain, dict | list):
        return escape(json.dumps(plain, ensure_ascii=False, separators=(", ", ": ")))
    return escape(str(plain))


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of an Arrow table; a time outside of the years 1 to 9999 is a text."""
    try:
        return list(table.to_pylist())
    except (OverflowError, ValueError):
        columns = [[_python_value(scalar) for scalar in column] for column in table.columns]
    names = table.column_names
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _python_value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        if hasattr(scalar, "keys"):
            return {key: _python_value(scalar[key]) for key in scalar.keys()}  # noqa: SIM118
        if hasattr(scalar, "values"):
            return [_python_value(inner) for inner in scalar.values]
        unit = getattr(scalar.type, "unit", "days")
        return f"{scalar.value} {unit} since 1970"


def _to_json(row: Row, *, is_ascii: bool = False) -> str:
    # a lone surrogate has no UTF-8 form: escaped it has a JSON one
    text = json.dumps(_plain(row), ensure_ascii=is_ascii, allow_nan=False)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _plain(value: Any) -> Any:  # noqa: PLR0911 (one line per kind of value)
    """Reduce a value to what JSON holds; what it does not know becomes its text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)  # noqa: PLR0124
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in value]
    if isinstance(value, datetime):
        return _instant(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return value.hex()
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _instant(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat()
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def size_text(count: float) -> str:
    """Return a number of bytes, such as 12.3 MB."""
    value = float(count)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if value < _THOUSAND or unit == "TB":
            return f"{value:.0f} bytes" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= _THOUSAND
    raise AssertionError("unreachable")


def count_text(count: int, noun: str) -> str:
    """Return a number with its noun, such as 1 version or 1,000 versions."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def clock_text(seconds: float) -> str:
    """Return a length of time as a clock shows it, such as 0:01:05."""
    whole = max(0, round(seconds))
    return f"{whole // _HOUR}:{whole % _HOUR // _MINUTE:02d}:{whole % _MINUTE:02d}"


def time_text(seconds: float) -> str:
    """Return a length of time in words, such as 5 minutes."""
    if seconds < _FEW:
        return f"{seconds:.1f} seconds"
    if seconds < 2 * _MINUTE:
        return f"{round(seconds)} seconds"
    if seconds < 2 * _HOUR:
        return f"{round(seconds / _MINUTE)} minutes"
    return f"{seconds / _HOUR:.1f} hours"
