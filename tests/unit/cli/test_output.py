"""What commands print, and where."""

import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pytest

from deltasql.cli.output import Output

ROWS = [{"name": "a", "version": 12}, {"name": "longer", "version": 3}]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def output(kind="text", **options):
    out = Output(io.StringIO(), io.StringIO(), kind, **options)
    return out, out.stdout, out.stderr


def test_text_is_aligned_and_plain_when_piped():
    out, stdout, _ = output()
    out.rows(ROWS)
    assert stdout.getvalue() == "name    version\na            12\nlonger        3\n"


def test_columns_are_those_asked_for():
    out, stdout, _ = output()
    out.rows(ROWS, ["version"])
    assert stdout.getvalue() == "version\n     12\n      3\n"


def test_json_is_one_array_and_ndjson_one_object_per_line():
    out, stdout, _ = output("json")
    out.rows(ROWS)
    assert json.loads(stdout.getvalue()) == ROWS
    out, stdout, _ = output("ndjson")
    out.rows(iter(ROWS))
    assert [json.loads(line) for line in stdout.getvalue().splitlines()] == ROWS
    out, stdout, _ = output("json")
    out.rows([])
    assert json.loads(stdout.getvalue()) == []


def test_every_value_has_a_json_form():
    out, stdout, _ = output("json")
    out.record(
        {
            "when": datetime(2026, 1, 2, 3, 4, 5, 6000, UTC),
            "naive": datetime(2026, 1, 2),
            "day": date(2026, 1, 2),
            "money": Decimal("1E+2"),
            "id": UUID(int=1),
            "raw": b"\x01\xff",
            "nan": float("nan"),
            "wait": timedelta(seconds=2),
            "odd": "\ud800é",
            "nested": {"list": [1, (2, None)]},
        }
    )
    assert json.loads(stdout.getvalue()) == {
        "when": "2026-01-02T03:04:05.006000Z",
        "naive": "2026-01-02T00:00:00",
        "day": "2026-01-02",
        "money": "100",
        "id": "00000000-0000-0000-0000-000000000001",
        "raw": "01ff",
        "nan": "nan",
        "wait": 2.0,
        "odd": "\ud800é",
        "nested": {"list": [1, [2, None]]},
    }


def test_a_value_cannot_drive_the_terminal():
    for stdout in (io.StringIO(), Terminal()):
        out = Output(stdout, io.StringIO(), has_color=False)
        out.rows([{"name": "\x1b[31mred\u202e [bold]x[/]\n"}])
        text = stdout.getvalue()
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "[bold]x[/]" in text
        assert len(text.splitlines()) == 2


def test_colour_is_a_choice():
    for has_color in (True, False):
        out = Output(Terminal(), io.StringIO(), has_color=has_color)
        out.rows(ROWS)
        assert "longer" in out.stdout.getvalue()
        assert has_color or "\x1b" not in out.stdout.getvalue()


@pytest.mark.parametrize("kind", ["text", "json"])
def test_what_was_done_goes_to_people_or_to_machines(kind):
    out, stdout, stderr = output(kind)
    out.done("t is at version 3.", {"version": 3})
    if kind == "text":
        assert (stdout.getvalue(), stderr.getvalue()) == ("", "t is at version 3.\n")
    else:
        assert (json.loads(stdout.getvalue()), stderr.getvalue()) == ({"version": 3}, "")


def test_quiet_silences_notes_but_not_data():
    out, stdout, stderr = output(is_quiet=True)
    out.note("working")
    out.record({"version": 3, "none": None})
    assert (stdout.getvalue(), stderr.getvalue()) == ("version  3\nnone\n", "")


def test_parts_of_a_thing_are_tables_below_it():
    out, stdout, _ = output()
    thing = {
        "name": "orders",
        "features": ["a", "b"],
        "none": None,
        "mirror": {"mode": "inline", "lag": 0, "error": "x: [y]"},
        "empty": {},
        "columns": [
            {"name": "id", "type": "long", "nullable": False},
            {"name": "tags", "type": "map<string,string>", "nullable": True},
        ],
    }
    out.describe(thing)
    assert stdout.getvalue() == (
        "name      orders\n"
        "features  a, b\n"
        "none\n"
        "empty     {}\n"
        "\nmirror\n"
        "  mode   inline\n"
        "  lag    0\n"
        "  error  x: [y]\n"
        "\ncolumns\n"
        "  name  type                nullable\n"
        "  id    long                no\n"
        "  tags  map<string,string>  yes\n"
    )
    out, stdout, _ = output("json")
    out.describe(thing)
    assert json.loads(stdout.getvalue()) == thing


@pytest.mark.parametrize(("columns", "is_table"), [("40", False), ("400", True)])
def test_rows_that_do_not_fit_stand_one_below_the_other(monkeypatch, columns, is_table):
    monkeypatch.setenv("COLUMNS", columns)
    screen = Terminal()
    rows = [{f"column{n}": f"value{n}-{row}" for n in range(30)} for row in range(2)]
    Output(screen, io.StringIO()).rows(rows)
    text = screen.getvalue()
    lines = text.splitlines()
    if is_table:
        assert len(lines) == 3
    else:
        assert (lines[0], len(lines)) == ("-- 1", 2 * 31)
        assert all(f"value{n}-{row}" in text for n in range(30) for row in range(2))
