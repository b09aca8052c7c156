"""The files in `deploy/` say what the program understands and the metrics that it has."""

import configparser
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import strictyaml
from prometheus_client import CollectorRegistry

from builders import some
from commands import parse_command
from deltasql.sinks import prometheus_sink

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus/rules.yml"
# Not ours: Prometheus makes the first, its client library the second.
OTHERS = {"up", "process_resident_memory_bytes"}
WORDS = {"by", "or", "and", "unless", "without"}
# What stands in braces, brackets and strings, and the labels of `by (…)`, are no metrics.
BESIDE = re.compile(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(?:by|without)\s*\([^)]*\)')
NAME = re.compile(r"\b[a-zA-Z_]\w*\b(?!\s*\()")


def registered() -> set[str]:
    """The names under which `/metrics` shows what the sink keeps."""
    registry = CollectorRegistry()
    prometheus_sink(registry)
    ends = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"], "gauge": [""]}
    return {f"{one.name}{end}" for one in registry.collect() for end in ends[one.type]}


def metrics_in(expression: str) -> set[str]:
    return set(NAME.findall(BESIDE.sub(" ", expression))) - WORDS


def rules() -> list[dict]:
    groups = strictyaml.load(RULES.read_text(encoding="utf-8")).data["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard() -> dict:
    return json.loads((DEPLOY / "grafana/dashboard.json").read_text(encoding="utf-8"))


def test_metrics_are_told_from_functions_and_labels():
    text = 'histogram_quantile(0.9, sum by (le) (rate(a_bucket{x="b"}[5m]))) > 5 or absent(c)'
    assert metrics_in(text) == {"a_bucket", "c"}


@pytest.mark.req("R15", "R31")
def test_the_rules_cover_what_can_go_wrong():
    found = {rule["alert"]: (rule["expr"], rule["labels"]["severity"]) for rule in rules()}
    lag = "max by (table) (deltasql_mirror_lag_seconds)"
    assert found["DeltasqlMirrorLag"] == (f"{lag} > 60", "warning")
    assert found["DeltasqlMirrorLagCritical"] == (f"{lag} > 300", "critical")
    others = {"MirrorStuck", "MirrorFailing", "WorkerDown", "WorkerSilent", "StoreDown"}
    assert set(found) >= {f"Deltasql{name}" for name in others}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_a_rule_names_known_metrics_and_tells_what_to_do(rule):
    named = metrics_in(rule["expr"])
    assert named
    assert named <= registered() | OTHERS
    notes = rule["annotations"]
    assert notes["summary"]
    assert notes["action"]
    page, _, anchor = notes["runbook"].partition("#")
    heads = re.findall(r"^## (.*)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert anchor in {head.lower().replace(" ", "-") for head in heads}


def test_promtool_accepts_the_rules():
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run(
        [tool, "check", "rules", str(RULES)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_shows_known_metrics_only():
    panels = dashboard()["panels"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    named = set().union(*map(metrics_in, expressions))
    assert named <= registered() | OTHERS
    assert {"deltasql_mirror_lag_seconds", "deltasql_mirror_stuck_versions", "up"} <= named


def test_the_panels_of_the_dashboard_do_not_overlap():
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (panel["gridPos"]["x"] + dx, panel["gridPos"]["y"] + dy)
        for panel in panels
        for dx in range(panel["gridPos"]["w"])
        for dy in range(panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_the_dashboard_asks_for_its_data_source():
    made = dashboard()
    names = {variable["name"] for variable in made["templating"]["list"]}
    assert names == {"datasource", "table"}
    assert {panel["datasource"]["uid"] for panel in made["panels"]} == {"${datasource}"}


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str
    parser.read_string((DEPLOY / "systemd/deltasql-mirror.service").read_text(encoding="utf-8"))
    return parser


def test_the_unit_starts_the_worker_and_never_gives_up():
    service = unit()["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert Path(program).name == "deltasql"
    assert parse_command(["deltasql", *words]) == "deltasql mirror run"
    assert service["Restart"] == "always"
    assert unit()["Unit"]["StartLimitIntervalSec"] == "0"
    assert service["User"] != "root"


def test_the_image_starts_the_worker_as_a_plain_user():
    lines = (DEPLOY / "container/Containerfile").read_text(encoding="utf-8").splitlines()
    said = dict(line.split(" ", 1) for line in lines if re.match(r"(USER|CMD|ENTRYPOINT) ", line))
    assert int(said["USER"]) > 0
    words = json.loads(said["ENTRYPOINT"]) + json.loads(said["CMD"])
    assert parse_command(words) == "deltasql mirror run"


def test_the_files_name_no_registry():
    """Where packages and images come from is the host's own configuration."""
    text = (DEPLOY / "container/Containerfile").read_text(encoding="utf-8")
    assert re.findall(r"https?://(?!127\.0\.0\.1)|index-url|\S+\.\w+/\S+:", text) == []
    (base,) = re.findall(r"^FROM (\S+)$", text, re.MULTILINE)
    assert "/" not in base


def test_links_lead_somewhere():
    page = DEPLOY / "README.md"
    text = page.read_text(encoding="utf-8")
    for link in some(re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text)):
        assert (page.parent / link.partition("#")[0]).exists(), link
