"""The object-store policies of `deploy/`, on an S3 server that checks them: each role works."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import deltasql
import servers
from builders import SCHEMA, ids, rows
from deltasql.errors import AccessDeniedError
from deltasql.mirror.compare import Difference
from deltasql.protocol.log_names import LOG_FOLDER, commit_key
from deltasql.settings import MirrorSettings, Settings
from deltasql.storage.resolve import open_store
from deltasql.testing import inspect
from deltasql.testing.invariants import check_invariants
from iam import start_guarded_s3
from readers import read_deltalake, read_deltasql
from server_process import Unavailable

POLICIES = Path(__file__).parents[2] / "deploy/policies/s3"
ROLES = ("reader", "writer", "worker", "operator")
PREFIX = "lake"
LATER = Settings(mirror=MirrorSettings(mode="worker"))
pytestmark = pytest.mark.req("R36")


@pytest.fixture(scope="module")
def guarded():
    """The server, and each role's storage options under its policy."""
    try:
        server = start_guarded_s3()
    except Unavailable as reason:
        if "s3" in os.environ.get("DELTASQL_REQUIRE_SERVERS", "").split():
            pytest.fail(f"the server s3 is required: {reason}")
        pytest.skip(f"no S3 server with users: {reason}")
    options = {role: server.add_user(role, policy(role)) for role in ROLES}
    options["nobody"] = server.add_user("nobody")
    options["root"] = server.root
    yield options
    server.gateway.stop()


def policy(role: str) -> str:
    text = (POLICIES / f"{role}.json").read_text(encoding="utf-8")
    return text.replace("BUCKET", servers.BUCKET).replace("PREFIX", PREFIX)


@pytest.fixture
def connect(guarded, tmp_path):
    """Open the same catalog as one of the roles."""
    uri = f"deltasql://sqlite/{tmp_path}/catalog.db"
    opened = []

    def open_as(role, settings=None, **options):
        found = deltasql.connect(
            uri, settings=settings or Settings(), storage_options=guarded[role], **options
        )
        opened.append(found)
        return found

    yield open_as
    for catalog in opened:
        catalog.close()


@pytest.fixture
def location(connect, fresh_name):
    """A table that the operator has made."""
    place = f"s3://{servers.BUCKET}/{PREFIX}/{fresh_name}"
    connect("operator").create_table("orders", location=place, schema=SCHEMA)
    return place


def refused(act, doing: str, key: str) -> AccessDeniedError:
    """The refusal names what was tried and the key, and the hint names the right."""
    with pytest.raises(AccessDeniedError) as error:
        act()
    assert f"Could not {doing} '{key}" in error.value.message
    assert error.value.context["key"].startswith(key)
    assert f"lack the right to {doing} objects" in error.value.advice
    assert "the guide on least rights" in error.value.advice
    return error.value


def test_the_worker_s_policy_holds_no_delete_and_no_data():
    (files, bucket) = json.loads(policy("worker"))["Statement"]
    assert set(files["Action"]) == {"s3:GetObject", "s3:PutObject"}
    assert files["Resource"] == [f"arn:aws:s3:::{servers.BUCKET}/{PREFIX}/*/_delta_log/*"]
    assert bucket["Action"] == ["s3:ListBucket"]
    actions = {role: json.loads(policy(role))["Statement"][0]["Action"] for role in ROLES}
    assert [role for role in ROLES if "s3:DeleteObject" in actions[role]] == ["operator"]


def test_a_writer_appends_and_mirrors_inline(connect, guarded, location):
    table = connect("writer").table("orders")
    assert table.append(rows(1, 2)) == 1
    table.wait_mirrored()
    check_invariants(connect("root"), "orders")
    assert read_deltalake(location, guarded["reader"]) == read_deltasql(table)


def test_a_large_file_goes_up_in_parts(guarded, location):
    with open_store(location, guarded["writer"]).open_output("large.parquet") as file:
        file.write(b"x" * (12 << 20))
    assert open_store(location, guarded["reader"]).head("large.parquet").size == 12 << 20


def test_a_worker_without_delete_rights_mirrors_and_writes_checkpoints(connect, location):
    table = connect("writer", LATER).table("orders")
    for number in range(1, 13):
        table.append(rows(number))
    with connect("worker", LATER) as catalog:
        assert catalog.mirror.run_once().mirrored == 12
        assert catalog.mirror.verify("orders") == []
        assert catalog.mirror.checkpoint("orders") == 12
    with connect("root") as catalog:
        catalog.create_if_missing()
        found = open_store(location, inspect(catalog).connection.stores.options)
        assert json.loads(found.get(f"{LOG_FOLDER}_last_checkpoint"))["version"] == 12
        check_invariants(catalog, "orders")


def test_a_worker_without_delete_rights_repairs_a_missing_commit(connect, guarded, location):
    connect("writer").table("orders").append(rows(1))
    store = open_store(location, guarded["root"])
    bytes_before = store.get(commit_key(1))
    store.delete(commit_key(1))
    with connect("worker", LATER) as catalog:
        (missing,) = catalog.mirror.verify("orders")
        assert missing.difference is Difference.MISSING_COMMIT
        catalog.mirror.repair("orders")
        assert catalog.mirror.verify("orders") == []
    assert store.get(commit_key(1)) == bytes_before


def test_a_worker_touches_no_data_and_deletes_nothing(connect, guarded, location):
    connect("writer").table("orders").append(rows(1))
    store = open_store(location, guarded["worker"])
    refused(lambda: store.put("data.parquet", b"x"), "write", "data.parquet")
    refused(lambda: store.put_if_absent("data.parquet", b"x"), "create", "data.parquet")
    refused(lambda: store.delete(commit_key(0)), "delete", commit_key(0))
    with connect("worker") as catalog, pytest.raises(AccessDeniedError):
        catalog.table("orders").scan().to_arrow()


def test_a_reader_scans_and_cannot_put(connect, guarded, location):
    connect("writer").table("orders").append(rows(1, 2))
    with connect("reader") as catalog:
        table = catalog.table("orders")
        assert ids(table) == [1, 2]
        assert catalog.mirror.verify("orders") == []
        with pytest.raises(AccessDeniedError) as error:
            table.append(rows(3))
        assert "part-" in error.value.message
        assert "lack the right to" in error.value.advice
        assert table.refresh().current_version == 1
    store = open_store(location, guarded["reader"])
    refused(lambda: store.put_if_absent(commit_key(2), b"x"), "create", commit_key(2))
    refused(lambda: store.delete(commit_key(1)), "delete", commit_key(1))


def test_a_writer_deletes_nothing_and_stays_below_the_prefix(guarded, location):
    store = open_store(location, guarded["writer"])
    refused(lambda: store.delete(commit_key(0)), "delete", commit_key(0))
    elsewhere = open_store(f"s3://{servers.BUCKET}/elsewhere/t", guarded["writer"])
    refused(lambda: elsewhere.put("a.parquet", b"x"), "write", "a.parquet")


def test_whoever_may_nothing_is_refused_the_listing_too(guarded, location):
    store = open_store(location, guarded["nobody"])
    refused(lambda: list(store.list_from(LOG_FOLDER)), "list", LOG_FOLDER)


def test_a_refused_mirror_fails_no_commit_and_the_next_worker_heals_it(connect, location):
    # the data files are there: what is refused is the log
    table = connect("writer", LATER).table("orders")
    table.append(rows(1))
    with connect("nobody", LATER) as catalog:
        swept = catalog.mirror.run_once()
        assert (swept.mirrored, swept.failed) == (0, 1)
        error = catalog.mirror.status("orders")["error"]
        assert error.startswith("DS403: Could not read '_delta_log/_deltasql'")
    with connect("worker", LATER) as catalog:
        assert catalog.mirror.run_once().mirrored == 1
    check_invariants(connect("root"), "orders")


def test_cleanup_is_the_operator_s_and_can_be_repeated_by_him(connect, guarded, location):
    day = 24 * 3600 * 1000
    start, now = 1_800_000_000_000 // day * day, {"ms": 0}
    clock = {"clock": lambda: now["ms"]}
    table = connect("writer", **clock).table("orders")
    for number in range(1, 12):
        now["ms"] = start + number * day
        table.append(rows(number))
    now["ms"] = start + 60 * day
    with connect("worker", **clock) as catalog:
        catalog.mirror.checkpoint("orders", 10)
        refused(lambda: catalog.mirror.cleanup("orders"), "delete", LOG_FOLDER)
    assert read_deltalake(location, guarded["reader"]) == read_deltasql(table)
    with connect("operator", **clock) as catalog:
        assert len(catalog.mirror.cleanup("orders")) == 10
        assert catalog.mirror.verify("orders") == []
        check_invariants(catalog, "orders")
        catalog.drop("orders", purge=True)
    assert list(open_store(location, guarded["root"]).list_from("")) == []


def test_the_command_line_tells_key_and_right_without_a_traceback(
    connect, guarded, location, tmp_path
):
    connect("writer").table("orders").append(rows(1))
    lines = [f'[stores."s3://{servers.BUCKET}"]']
    lines += [f"{key} = {json.dumps(value)}" for key, value in guarded["worker"].items()]
    config = tmp_path / "deltasql.toml"
    config.write_text("\n".join(lines))
    uri = f"deltasql://sqlite/{tmp_path}/catalog.db"
    done = subprocess.run(
        [sys.executable, "-m", "deltasql", "--config", str(config), "-u", uri, "sample", "orders"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    first, _, hint = done.stderr.strip().partition("\n\n")
    assert first.startswith("error[DS403]: Could not read 'part-")
    assert hint.startswith("hint: ")
    for secret in (guarded["worker"]["AWS_SECRET_ACCESS_KEY"], "Traceback"):
        assert secret not in done.stdout + done.stderr
