"""The guides of the mirror: commands are understood, SQL and programs run, texts are real."""

import json
import re
import sqlite3
from dataclasses import fields as fields_of
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from prometheus_client import CollectorRegistry

import deltasql
from builders import NO_MIRROR, a_table, rows, some
from commands import commands_in, parse_command
from deltasql import events
from deltasql.errors import CatalogUnavailableError, StorageUnavailableError
from deltasql.mirror.compare import Difference, Finding
from deltasql.mirror.worker.alerts import (
    conflict_alert,
    database_alert,
    differs_alert,
    failure_alert,
    lag_alert,
    store_alert,
    stuck_alert,
)
from deltasql.settings import Settings
from deltasql.sinks import prometheus_sink
from deltasql.testing import inspect
from deltasql.uri import PostgresUri, parse_uri

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs/guides"
PAGES = ["mirror.md", "monitoring.md", "troubleshooting.md"]
WARN, CRITICAL = timedelta(seconds=60), timedelta(seconds=300)


def text_of(page: str) -> str:
    return (GUIDES / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    pattern = rf"^```{language}\n(.*?)^```"
    return re.findall(pattern, text_of(page), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_is_one_that_the_program_takes(page):
    for words in commands_in(text_of(page)):
        assert parse_command(words), words
    assert page == "monitoring.md" or commands_in(text_of(page))


@pytest.fixture
def database(catalog_uri, tmp_path):
    """A catalog with a version that failed, as another program sees its database."""
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        tracker = inspect(catalog).queue
        for _ in range(5):
            tracker.mark_failed(table.table_id, 0, "DS403: refused", now=1, final=True)
    # only now: two SQLite libraries must not have one file open at the same time
    opened = _open(parse_uri(catalog_uri))
    yield opened
    opened.close()


def _open(uri):
    if not isinstance(uri, PostgresUri):
        return sqlite3.connect(uri.path)
    return psycopg.connect(uri.conninfo(), options=f"-c search_path={uri.schema}")


@pytest.mark.req("R50")
def test_the_sql_of_troubleshooting_finds_the_stuck_version_and_resets_it(database):
    shown = []
    for statement in blocks("troubleshooting.md", "sql"):
        if statement.lower().startswith("update"):
            database.execute("update dl_mirror_status set retry_count = 5 where version = 0")
            assert database.execute(statement).rowcount == 1
            found = database.execute("select retry_count from dl_mirror_status where version = 0")
            assert found.fetchone() == (0,)
        else:
            shown.append(database.execute(statement).fetchall())
    lagging, why, stuck, conflicts, properties, checkpoints = shown
    assert [row[:3] for row in lagging] == [("", "orders", 2)]
    assert [row[:5] for row in why] == [("orders", 0, "FAILED", 5, "DS403: refused")]
    assert [row[:4] for row in stuck] == [("orders", 0, 5, "DS403: refused")]
    assert conflicts == properties == []
    assert checkpoints == [("", "orders", None, -1)]


def test_the_sql_of_monitoring_names_tables_in_conflict(database):
    (statement,) = blocks("monitoring.md", "sql")
    database.execute("update dl_tables set state = 'conflict'")
    assert database.execute(statement).fetchall() == [("", "orders")]


def test_monitoring_lists_all_metrics_and_no_others():
    registry = CollectorRegistry()
    prometheus_sink(registry)
    ends = {"counter": "_total", "histogram": "", "gauge": ""}
    names = {metric.name + ends[metric.type] for metric in registry.collect()}
    assert set(re.findall(r"^\| `(deltasql_\w+)`", text_of("monitoring.md"), re.MULTILINE)) == names


def test_monitoring_lists_the_events_of_the_worker_with_their_fields():
    kinds = {kind.name: kind for kind in events.Event.__subclasses__()}
    told = {}
    lines = re.findall(
        r"^\| (`\w+`(?:, `\w+`)*) \| (DEBUG|WARNING) \| (.*) \|$",
        text_of("monitoring.md"),
        re.MULTILINE,
    )
    for names, level, fields in lines:
        for name in re.findall(r"\w+", names):
            told[name] = (level, set(re.findall(r"`(\w+)`", fields)))
    for name, (level, fields) in some(told.items()):
        assert (level == "WARNING") == kinds[name].is_bad, name
        own = {field.name for field in fields_of(kinds[name])} - {"table_id", "table", "version"}
        assert fields == own, name
    not_of_workers = {"version_committed", "commit_repeated", "snapshot_opened"}
    assert set(told) == set(kinds) - not_of_workers


def test_monitoring_quotes_the_alerts_as_they_are_told():
    conflict = conflict_alert("orders", 7, "key", "DS501: other bytes")
    alerts = [
        lag_alert("orders", 61, 7, WARN, CRITICAL),
        lag_alert("orders", 301, 7, WARN, CRITICAL),
        stuck_alert("orders", 1500, 5, "DS403: The store refused the credentials."),
        conflict,
        differs_alert(
            "orders", [Finding(Difference.LAST_CHECKPOINT_WRONG, "key", 7, "is not there")] * 2
        ),
        differs_alert("orders", [Finding(Difference.MISSING_COMMIT, "key", 7, "is not there")]),
        failure_alert("orders", 7, "DS000: unexpected"),
        database_alert(CatalogUnavailableError()),
        store_alert("s3://lake", "orders", StorageUnavailableError()),
    ]
    page = text_of("monitoring.md")
    for alert in alerts:
        row = next(line for line in page.splitlines() if line.startswith(f"| `{alert.kind}` |"))
        assert f"| {alert.severity} |" in row
        assert f"`{alert.text().splitlines()[0]}`" in row
    (body,) = blocks("monitoring.md", "json")
    source = {"catalog": "5f0c…", "worker": "host/4711/0c1d2e3f"}
    stuck = replace(alerts[2], time="2026-01-02T03:04:05.678+00:00", **source)
    assert json.loads(body) == json.loads(json.dumps(stuck.to_dict()))


def test_mirror_lists_all_differences():
    named = re.findall(
        r"^\| (`\w+`(?:, `\w+`)*) \| .* \| .* \|$", text_of("mirror.md"), re.MULTILINE
    )
    found = {name for names in named for name in re.findall(r"\w+", names)}
    assert found >= set(Difference)


@pytest.mark.parametrize("page", PAGES)
def test_every_setting_that_is_named_exists(page):
    known = {row.key for row in Settings.describe()} | {row.env for row in Settings.describe()}
    named = set(re.findall(r"\b(mirror\.[a-z_]+|DELTASQL_[A-Z_]+)\b(?!\()", text_of(page)))
    methods = {"DELTASQL_CONFIG", "mirror.status", "mirror.run_once", "mirror.verify", "mirror.md"}
    assert named - methods <= known


def test_the_alert_settings_are_read_as_the_guide_writes_them(tmp_path):
    (tmp_path / "deltasql.toml").write_text(blocks("monitoring.md", "toml")[0], encoding="utf-8")
    found = Settings.load({}, tmp_path).alerts
    assert found.webhook == "https://alerts.example.com/deltasql"
    assert found.command == "/usr/local/bin/page-someone --team lake"
