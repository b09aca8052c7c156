"""The architecture page names modules that exist, and shows every flow and layer there is."""

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))

from diagrams import Flow, Step, draw_flow, draw_layers, read_flows, read_layers  # noqa: E402

PAGE = (ROOT / "docs/concepts/architecture.md").read_text(encoding="utf-8")
FLOWS = read_flows(ROOT)


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_each_step_names_a_module(flow):
    assert flow.steps
    missing = [step.module for step in flow.steps if find_spec(f"deltasql.{step.module}") is None]
    assert missing == []


def test_the_page_shows_the_layers_and_all_flows():
    shown = re.findall(r"\(diagrams/([\w-]+)\.svg\)", PAGE)
    assert shown == ["layers", *(flow.name for flow in FLOWS)]
    assert len(FLOWS) == 5


def test_every_package_is_in_a_layer():
    named = {name for row in read_layers(ROOT) for name in row}
    package = ROOT / "src/deltasql"
    folders = {file.parent.name for file in package.glob("*/__init__.py")}
    assert folders - {"testing"} <= named


def test_the_page_names_packages_that_exist():
    names = {name for name in re.findall(r"`(\w+)`", PAGE) if name != "_delta_log"}
    assert names
    assert [name for name in sorted(names) if find_spec(f"deltasql.{name}") is None] == []


def test_what_is_drawn_is_escaped_and_wrapped():
    long = "if a < b & c, " * 12
    picture = draw_flow(Flow("f", 'a "title"', (Step("one.module", long), Step("two", "x"))))
    assert "a &lt; b &amp; c" in picture
    assert picture.count("<text") > 5
    assert picture.count('class="arrow"') == 1


def test_layers_of_one_row_share_it():
    picture = draw_layers([["a"], ["b", "c"]])
    boxes = re.findall(r'<rect class="box".*?>', picture)
    assert len(boxes) == 3
    assert len({re.search(r'y="([\d.]+)"', box)[1] for box in boxes}) == 2
