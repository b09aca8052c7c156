"""The brooms of the command line: vacuum and db forget."""

import json
import os
import time

import pytest

import deltasql
from builders import rows
from commands import data

DAY = 24 * 3600


@pytest.fixture
def old_orders(tmp_path):
    """A table that was overwritten forty days ago, with a leftover beside it."""
    moment = int((time.time() - 40 * DAY) * 1000)
    place = tmp_path / "orders"
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/c.db", clock=lambda: moment) as catalog:
        table = catalog.create_table("orders", location=str(place), schema=rows(1).schema)
        table.append(rows(1, 2))
        table.overwrite(rows(3))
    (place / "left.parquet").write_bytes(b"12345")
    os.utime(place / "left.parquet", (moment / 1000, moment / 1000))
    return place


def parquet(place) -> set[str]:
    return {file.name for file in place.glob("*.parquet")}


@pytest.mark.req("R92")
def test_vacuum_lists_first_and_deletes_on_request(run, old_orders):
    before = parquet(old_orders)
    told = run("vacuum", "orders", "-o", "json")
    listed = {row["key"]: row for row in data(told)}
    assert listed["left.parquet"] == {
        "table": "orders",
        "key": "left.parquet",
        "bytes": 5,
        "is_orphan": True,
    }
    assert len(listed) == 2
    assert parquet(old_orders) == before
    assert "2 files of orders" in run("vacuum", "orders").stderr
    assert "were deleted" in run("vacuum", "orders", "--delete", "--yes").stderr
    assert parquet(old_orders) == before - set(listed)
    assert data(run("vacuum", "orders", "-o", "json")) == []
    assert run("sample", "orders", "--version", "1", code=1).stderr.startswith("error[DS313]")
    assert run("restore", "orders", "--version", "1", code=1).stderr.startswith("error[DS313]")


def test_vacuum_asks_before_it_deletes_and_guards_the_retention(run, old_orders):
    before = parquet(old_orders)
    assert "--yes" in run("vacuum", "orders", "--delete", code=2).stderr
    short = run("vacuum", "orders", "--retain", "1h", "--delete", "--yes", code=2)
    assert "--allow-short-retention" in short.stderr
    assert "such as" in run("vacuum", "orders", "--retain", "soon", code=2).stderr
    assert parquet(old_orders) == before
    run("vacuum", "orders", "--retain", "2h", "--allow-short-retention", "--delete", "--yes")
    assert len(parquet(old_orders)) == 1


@pytest.mark.req("R92")
def test_old_versions_are_forgotten_once_the_log_is_clean(run, old_orders):
    again = ("db", "forget", "orders", "--older-than", "30d")
    (row,) = data(run(*again, "--dry-run", "-o", "json"))
    assert row == {"table": "orders", "versions": 0, "oldest": 0, "done": False}
    run("checkpoint", "orders", "--version", "2")
    run("mirror", "cleanup", "orders")
    (row,) = data(run(*again, "--yes", "-o", "json"))
    assert row == {"table": "orders", "versions": 2, "oldest": 2, "done": True}
    (entry,) = data(run("history", "orders", "-o", "json"))
    assert entry["version"] == 2
    assert run("sample", "orders", "--version", "1", code=1).stderr.startswith("error[DS303]")
    assert json.loads(run("fsck", "orders", "-o", "json").stdout)["findings"] == 0
