"""Every tool says how far a log is behind SQL and why, and leaves with the code for it."""

import json

import pytest

import deltasql
from builders import a_table, rows
from deltasql.errors import VersionNotFoundError
from deltasql.settings import MirrorSettings, Settings

WORKER = Settings(mirror=MirrorSettings(mode="worker"))
BEHIND = "The log of orders is 2 versions behind SQL (at 2 of 4)"
LOOKS = ("mirror repair orders", "mirror repair orders --dry-run", "mirror verify orders", "fsck")


@pytest.fixture
def database(tmp_path):
    return f"deltasql://sqlite/{tmp_path}/c.db"


@pytest.fixture
def orders(database, tmp_path):
    """A table at version 2 whose log cannot take version 3: a folder has its name."""
    with deltasql.connect(database) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        table.append(rows(2))
        root = table.location.removeprefix("file://")
    return tmp_path / root


def block(orders):
    (orders / "_delta_log" / f"{3:020}.json").mkdir()


@pytest.fixture
def behind(orders, database):
    """The same table with SQL at 4 and the log at 2."""
    block(orders)
    with deltasql.connect(database) as catalog:
        table = catalog.table("orders")
        table.append(rows(3))
        table.append(rows(4))
        assert catalog.mirror.status("orders")["mirrored_through"] == 2
    return orders


@pytest.mark.req("R34", "R50")
@pytest.mark.parametrize("words", LOOKS)
def test_a_look_at_a_log_that_is_behind_says_how_far_and_why(call, database, behind, words):
    told = call("-u", database, *words.split(), code=6)
    assert BEHIND in told.stderr
    assert "is a directory" in told.stderr
    assert "equal" not in told.stderr


@pytest.mark.parametrize("words", LOOKS)
def test_the_same_as_json(call, database, behind, words):
    told = call("-u", database, "-o", "json", *words.split(), code=6)
    (row,) = json.loads(told.stdout)["behind"]
    assert (row["table"], row["lag_versions"], row["mirrored_through"]) == ("orders", 2, 2)
    assert row["reason"].startswith("DS400")


def test_a_single_pass_of_the_worker_says_what_it_could_not_mirror(call, database, behind):
    told = call("-u", database, "mirror", "run", "--once", code=6)
    assert BEHIND in told.stderr
    assert "is a directory" in told.stderr


def test_the_doctor_fails_where_a_log_cannot_follow(call, database, behind):
    rows_told = json.loads(call("-u", database, "doctor", "-o", "json", code=6).stdout)
    verdicts = {row["check"]: row for row in rows_told}
    assert verdicts["logs"]["verdict"] == "fail"
    assert BEHIND in verdicts["logs"]["detail"]


def test_the_doctor_looks_at_every_store(call, database, orders, tmp_path):
    with deltasql.connect(database) as catalog:
        a_table(catalog, tmp_path, "other")
    orders.rename(tmp_path / "elsewhere")
    told = json.loads(call("-u", database, "doctor", "-o", "json", code=6).stdout)
    stores = {row["check"]: row for row in told}
    assert stores["stores"]["detail"] == "1 answer"
    assert stores["store"]["verdict"] == "fail"
    assert "orders" in stores["store"]["detail"]
    (tmp_path / "elsewhere").rename(orders)
    told = json.loads(call("-u", database, "doctor", "-o", "json").stdout)
    assert {row["check"]: row["detail"] for row in told}["stores"] == "2 answer"
    assert {row["verdict"] for row in told} == {"ok"}


@pytest.mark.parametrize(
    "words", ["alter orders --set a=b", "restore orders --version 1", "compact orders"]
)
def test_a_write_whose_log_does_not_follow_warns(call, database, orders, words):
    block(orders)
    told = call("-u", database, *words.split())
    assert "warning: The log of orders is 1 version behind SQL (at 2 of 3)" in told.stderr
    assert "is a directory" in told.stderr


def test_a_write_whose_log_follows_warns_of_nothing(call, database, orders):
    assert "warning" not in call("-u", database, "alter", "orders", "--set", "a=b").stderr


def test_versions_that_wait_for_a_worker_or_a_pause_are_told_and_are_no_failure(
    call, database, tmp_path
):
    with deltasql.connect(database, settings=WORKER) as catalog:
        a_table(catalog, tmp_path).append(rows(1))
    told = call("-u", database, "mirror", "verify", "orders").stderr
    assert "behind SQL" in told
    assert "worker" in told
    call("-u", database, "mirror", "pause", "orders")
    assert "paused" in call("-u", database, "mirror", "verify", "orders").stderr
    call("-u", database, "mirror", "resume", "orders")
    call("-u", database, "mirror", "run", "--once")
    assert "behind" not in call("-u", database, "mirror", "verify", "orders").stderr


@pytest.mark.parametrize("version", [1500, 3, -1])
def test_a_version_that_the_table_has_not_is_not_repaired(call, database, orders, version):
    words = ["mirror", "repair", "orders", "--version", version]
    told = call("-u", database, *words, code=1).stderr
    assert "DS303" in told
    assert "orders" in told
    with deltasql.connect(database) as catalog, pytest.raises(VersionNotFoundError):
        catalog.mirror.repair("orders", version=version)
