"""Draw the architecture page's diagrams as SVG: the layers, and the flows step by step.

The layers are those that import-linter checks; the flows are in `docs/concepts/flows.toml`.
"""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

FLOWS = "docs/concepts/flows.toml"
_WIDTH = 880
_MARGIN = 16
_LINE = 18
_NAME_WIDTH = 300
_TEXT_CHARACTERS = 72
_STYLE = """<style>
text { font: 14px system-ui, sans-serif; fill: #1f2933; }
.name { font: 13px ui-monospace, monospace; font-weight: 600; }
.title { font-size: 17px; font-weight: 600; }
.paper { fill: #ffffff; }
.box { fill: #eef2f7; stroke: #9aa5b1; }
.arrow { stroke: #52606d; fill: none; marker-end: url(#head); }
.tip { fill: #52606d; }
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
orient="auto"><path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>"""


@dataclass(frozen=True, slots=True)
class Step:
    """What one module does in a flow."""

    module: str
    does: str


@dataclass(frozen=True, slots=True)
class Flow:
    """What passes which modules, in their order."""

    name: str
    title: str
    steps: tuple[Step, ...]


def read_flows(root: Path) -> list[Flow]:
    """Return the flows of the architecture page."""
    with (root / FLOWS).open("rb") as file:
        given = tomllib.load(file)
    return [
        Flow(name, flow["title"], tuple(Step(*step) for step in flow["steps"]))
        for name, flow in given.items()
    ]


def read_layers(root: Path) -> list[list[str]]:
    """Return the packages from the top to the bottom, those of one layer in one list."""
    with (root / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (layers,) = (one["layers"] for one in contracts if one["type"] == "layers")
    return [[name.strip().removeprefix("deltasql.") for name in row.split("|")] for row in layers]


def draw_flow(flow: Flow) -> str:
    """Return a flow as boxes with arrows from one to the next."""
    parts, top = [], 2 * _MARGIN + _LINE
    for number, step in enumerate(flow.steps):
        lines = textwrap.wrap(step.does, _TEXT_CHARACTERS)
        height = _LINE * len(lines) + _MARGIN
        if number:
            middle = _MARGIN + _NAME_WIDTH // 2
            parts.append(_arrow(middle, top - _MARGIN, top))
        parts.append(_box(_MARGIN, top, _NAME_WIDTH, height))
        parts.append(_text(2 * _MARGIN, top + height / 2 + 5, step.module, "name"))
        left = _MARGIN + _NAME_WIDTH + _MARGIN
        parts += _lines(left, top + _MARGIN / 2 + 14, lines)
        top += height + _MARGIN
    return _picture(flow.title, parts, top)


def draw_layers(layers: list[list[str]]) -> str:
    """Return the layers as rows of boxes; each row may import the rows below it."""
    parts, top, height = [], 2 * _MARGIN + _LINE, _LINE + _MARGIN
    for row in layers:
        width = (_WIDTH - _MARGIN * (len(row) + 1)) / len(row)
        for place, name in enumerate(row):
            left = _MARGIN + place * (width + _MARGIN)
            parts.append(_box(left, top, width, height))
            parts.append(_text(left + width / 2, top + height / 2 + 5, name, "name", "middle"))
        top += height + _MARGIN / 2
    return _picture("Layers: each imports only what is below it", parts, top + _MARGIN / 2)


def _picture(title: str, parts: list[str], height: float) -> str:
    view = f'viewBox="0 0 {_WIDTH} {height:g}" width="{_WIDTH}" height="{height:g}"'
    body = "\n".join([_text(_MARGIN, _MARGIN + _LINE, title, "title"), *parts])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {view} role="img" aria-label="{escape(title)}">\n'
        f'{_STYLE}\n<rect class="paper" width="100%" height="100%"/>\n{body}\n</svg>\n'
    )


def _box(left: float, top: float, width: float, height: float) -> str:
    place = f'x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}"'
    return f'<rect class="box" {place} rx="5"/>'


def _arrow(x: float, top: float, bottom: float) -> str:
    return f'<path class="arrow" d="M{x:g} {top:g} V{bottom:g}"/>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    shown = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{shown} text-anchor="{anchor}">{escape(text)}</text>'


def _lines(x: float, y: float, lines: list[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield _text(x, y + number * _LINE, line)
