"""The import's command line: output formats, refusals, interruptions."""

import json
import os
import pty
import re
import signal
import subprocess
import sys

import pytest

import deltasql
from builders import some
from commands import data
from deltasql.api import imports as import_desk
from deltasql.errors import DeltaSqlError
from deltasql.imports.read import tasks
from deltasql.metastore.table_row import TableState
from deltasql.protocol.log_names import commit_key
from histories import History
from legacy import LOCAL, row_of

CANARY = "s3cr3t-canary"


@pytest.fixture
def target(tmp_path):
    return f"deltasql://sqlite/{tmp_path}/metadata.db"


@pytest.fixture
def source(tmp_path):
    return History(5, versions=12, vectors=False).write(tmp_path / "lake/orders")


# -- formats -----------------------------------------------------------------------------------


@pytest.mark.req("R72")
@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--dry-run",),
        ("--dry-run=quick",),
        ("--up-to-version", "3"),
        ("--force",),
    ],
    ids=" ".join,
)
def test_json_is_one_document_from_start_to_end(call, source, target, words):
    told = call("import", source, target, *LOCAL, "-o", "json", *words).stdout
    found, end = json.JSONDecoder().raw_decode(told)
    assert told[end:] == "\n"
    assert found["table"] == "orders"


@pytest.mark.req("R72")
def test_ndjson_is_one_event_per_line_and_ends_with_the_outcome(call, source, target, monkeypatch):
    monkeypatch.setattr(tasks, "TASK_VERSIONS", 3)
    told = call("import", source, target, *LOCAL, "-o", "ndjson")
    events = [json.loads(line) for line in told.stdout.splitlines()]
    assert [one["event"] for one in events[:-1]] == ["progress"] * (len(events) - 1)
    seen = [one["version"] for one in events if one.get("step") == "Importing version"]
    assert seen == [2, 5, 8, 11]
    assert events[-1]["event"] == "imported"
    assert events[-1]["imported"]["versions"] == 12
    assert told.stderr == ""


@pytest.mark.req("R72")
def test_the_next_commands_can_be_typed_as_they_are(call, source, target):
    told = data(call("import", source, target, *LOCAL, "-o", "json"))
    for line in some(told["next"]):
        words = line.split()
        assert words[0] == "deltasql"
        extra = LOCAL if words[1] == "import" else ()
        call(*words[1:], *extra)
    assert row_of(target).state is TableState.ACTIVE


@pytest.mark.req("R72")
def test_warnings_are_told_by_name(call, source, target):
    (source / "_delta_log/readme.txt").write_text("hello")
    done = call("import", source, target, *LOCAL)
    assert re.search(r"^warning\[stranger\]: .*readme\.txt", done.stderr, re.MULTILINE)
    again = data(call("import", source, target, *LOCAL, "--resume", "-o", "json"))
    assert [one["code"] for one in again["warnings"]] == ["stranger"]


def test_dry_run_may_stand_before_the_source(call, source, target):
    assert "Would import 12 versions" in call("import", "--dry-run", source, target, *LOCAL).stdout


def test_the_target_may_come_from_the_environment(call, source, target, monkeypatch):
    monkeypatch.setenv("DELTASQL_URI", target)
    told = data(call("import", source, *LOCAL, "-o", "json"))
    assert told["next"][-1] == "deltasql cutover orders"
    assert row_of(target).current_version == 11


def test_the_name_comes_from_option_uri_or_folder(call, source, target):
    words = ("import", source, f"{target}?table=of_uri", *LOCAL, "--dry-run=quick", "-o", "json")
    assert data(call(*words))["table"] == "of_uri"
    assert data(call(*words, "--name", "a.b"))["table"] == "a.b"


# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--resume", "--force"], "--resume or --force"),
        (["--skip-validation", "--accept-differences"], "--skip-validation"),
        (["--validate-only", "--dry-run"], "--dry-run"),
        (["--validate-only", "--up-to-version", "0"], "--up-to-version"),
        (["--lake", "--name", "x"], "--name"),
        (["--lake", "--up-to-version", "0"], "--up-to-version"),
        (["--up-to-version", "-1"], "--up-to-version"),
        (["--dry-run=frob"], "--dry-run"),
        (["--conf", "spark.x"], "KEY=VALUE"),
        (["--uri", "deltasql://sqlite/other.db"], "not both"),
    ],
    ids=lambda given: given if isinstance(given, str) else " ".join(given),
)
def test_contradictions_are_refused_before_anything_happens(call, source, target, words, named):
    told = call("import", source, target, *words, code=2).stderr
    assert named in told
    assert "\nhint: " in told
    assert not any(path.suffix == ".db" for path in source.parents[1].iterdir())


def test_the_local_engine_takes_nothing_of_spark(call, source, target):
    told = call("import", source, target, *LOCAL, "--master", "local[2]", code=2).stderr
    assert "--engine spark" in told


@pytest.mark.parametrize("words", [(), ("--resume",), ("--force", "--yes"), ("--lake",)], ids=str)
def test_no_catalog_is_made_for_what_cannot_be_imported(call, target, tmp_path, words):
    (tmp_path / "empty").mkdir()
    told = call("import", "empty", target, *LOCAL, *words, code=1).stderr
    assert told.startswith("error[DS401]")
    assert "hint: " in told
    assert not (tmp_path / "metadata.db").exists()


def test_a_root_of_tables_is_told_what_to_do(call, source, target):
    told = call("import", source.parent, target, *LOCAL, code=1).stderr
    assert re.search(r"`deltasql import \S+ --lake` finds them all", told)


def test_a_source_that_is_another_one_is_not_compared(call, source, target, tmp_path):
    other = History(6, versions=3, vectors=False).write(tmp_path / "other")
    call("import", source, target, *LOCAL)
    words = ("--name", "orders", "--validate-only")
    told = call("import", other, target, *LOCAL, *words, code=2).stderr
    assert "came from" in told


def test_a_password_is_never_repeated(call, source, monkeypatch):
    dsn = f"postgresql://me:{CANARY}@127.0.0.1:9/lake"
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "1")
    told = call("import", source, dsn, *LOCAL, code=6)
    assert CANARY not in told.stdout + told.stderr


def test_an_import_that_is_active_is_told_where_to_look(call, source, target):
    call("import", source, target, *LOCAL)
    call("cutover", "orders", "-u", target)
    assert "deltasql tables" in call("import", source, target, *LOCAL, "--resume", code=1).stderr
    told = call("import", source, target, *LOCAL, "--validate-only", code=2).stderr
    assert "deltasql mirror verify orders" in told
    assert call("cutover", "orders", "-u", target, code=4).stderr.startswith("error[DS604]")


@pytest.mark.req("R102")
def test_a_cutover_behind_the_log_names_the_way(call, source, target):
    call("import", source, target, *LOCAL, "--up-to-version", "5")
    told = call("cutover", "orders", "-u", target, code=4).stderr
    assert "the log of orders is at version 11, sql at 5" in told.lower()
    assert "--resume" in told


@pytest.mark.req("R102")
def test_a_cutover_without_a_fence_says_so(call, source, target):
    call("import", source, target, *LOCAL)
    assert (
        data(call("cutover", "orders", "-u", target, "--no-fence", "-o", "json"))["fenced"] is False
    )
    assert data(call("show", "orders", "-u", target, "-o", "json"))["fenced"] is False


@pytest.mark.req("R64")
def test_an_import_that_differs_stays_read_only_and_leaves_with_3(
    call, source, target, monkeypatch
):
    real = import_desk.import_one

    def spoiled(session, *given):
        done = real(session, *given)
        from deltasql.imports.validate.validator import Verdict, remember

        row = remember(session, done.row, Verdict.DIFFERENT)
        return type(done)(
            done.table,
            done.table_id,
            done.source,
            done.engine,
            done.plan,
            done.counts,
            row,
            done.validation,
        )

    monkeypatch.setattr(import_desk, "import_one", spoiled)
    told = call("import", source, target, *LOCAL, code=3)
    assert "cannot be cut over" in told.stderr
    assert "--accept-differences" in told.stderr
    assert "Next:" not in told.stderr
    assert row_of(target).state is TableState.READ_ONLY
    assert call("cutover", "orders", "-u", target, code=3).stderr.startswith("error[DS602]")


# -- unfinished imports ------------------------------------------------------------------------


def stopping_at(version, error):
    """An observer's step that ends the import behind a version."""
    from deltasql.cli.import_progress import Watch

    real = Watch.__call__

    def call(self, progress):
        real(self, progress)
        if progress.step == "Importing version" and progress.version >= version:
            raise error

    return call


@pytest.mark.req("R71")
def test_an_interruption_says_what_is_there_in_one_line(call, source, target, monkeypatch):
    monkeypatch.setattr(tasks, "TASK_VERSIONS", 3)
    monkeypatch.setattr(tasks, "SEGMENT_BYTES", 1)
    with monkeypatch.context() as patched:
        step = stopping_at(5, KeyboardInterrupt())
        patched.setattr("deltasql.cli.import_progress.Watch.__call__", step)
        told = call("import", source, target, *LOCAL, code=130).stderr.splitlines()
    assert told[-1].startswith("interrupted: Versions 0 to 5 of orders are kept: `deltasql import ")
    assert "--resume" in told[-1]
    assert "drop orders" in told[-1]
    assert row_of(target).state is TableState.IMPORTING
    refused = call("show", "orders", "-u", target, code=4).stderr
    assert "--resume" in refused
    call("import", source, target, *LOCAL, "--resume")
    assert row_of(target).current_version == 11


@pytest.mark.req("R71")
def test_an_interruption_before_the_first_version_leaves_nothing(call, source, target, monkeypatch):
    from deltasql.imports.load.loader import Loader

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Loader, "load", stop)
    told = call("import", source, target, *LOCAL, code=130).stderr.splitlines()
    assert told == ["interrupted: nothing of orders was changed."]


@pytest.mark.req("R82")
def test_an_unfinished_import_is_taken_back_by_drop(call, source, target, monkeypatch):
    monkeypatch.setattr(tasks, "TASK_VERSIONS", 3)
    (source / commit_key(8)).write_bytes(b"{\n")
    told = call("import", source, target, *LOCAL, code=5).stderr
    assert "Versions 0 to 5 of orders are kept" in told
    call("drop", "orders", "-u", target, "--dry-run")
    assert row_of(target).current_version == 5
    call("drop", "orders", "-u", target)
    with deltasql.connect(target) as catalog:
        assert catalog.tables() == catalog.unfinished_imports() == []
    with pytest.raises(DeltaSqlError):
        row_of(target)


# -- a real terminal and a real signal ---------------------------------------------------------


@pytest.mark.req("R72")
def test_on_a_terminal_a_bar_is_drawn_and_stdout_stays_data(source, target, tmp_path):
    master, slave = pty.openpty()
    env = {**os.environ, "HOME": str(tmp_path), "TERM": "xterm", "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-m", "deltasql", "import", source, target, *LOCAL],
        env=env,
        stdout=subprocess.PIPE,
        stderr=slave,
        stdin=slave,
        timeout=120,
        check=True,
    )
    os.close(slave)
    drawn = b""
    while b"cutover orders" not in drawn:
        drawn += os.read(master, 65536)
    os.close(master)
    assert "12/12 versions (100%)" in drawn.decode()
    assert re.search(r"orders: [A-Z][a-z ]+(\d+)?\.\.\.", drawn.decode())
    assert b"\x1b" not in done.stdout
    assert done.stdout.decode().splitlines()[0].split() == ["table", "orders"]


@pytest.mark.req("R71")
def test_ctrl_c_ends_a_process_with_130_and_the_import_goes_on(call, source, target, tmp_path):
    script = (
        "import os, signal, sys\n"
        "from deltasql.imports.read import tasks\n"
        "from deltasql.cli.import_progress import Watch\n"
        "from deltasql.cli.main import main\n"
        "tasks.TASK_VERSIONS, tasks.SEGMENT_BYTES, real = 3, 1, Watch.__call__\n"
        "def step(self, progress):\n"
        "    real(self, progress)\n"
        "    if progress.version >= 5: os.kill(os.getpid(), signal.SIGINT)\n"
        "Watch.__call__ = step\n"
        "main()\n"
    )
    words = ["import", str(source), target, *LOCAL]
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert done.returncode == 128 + signal.SIGINT
    assert "Traceback" not in done.stderr
    assert "interrupted: Versions 0 to 5 of orders are kept" in done.stderr
    call("import", source, target, *LOCAL, "--resume")
    assert row_of(target).current_version == 11


def test_every_option_of_the_seed_is_in_the_help(call):
    told = call("import", "--help").stdout
    for option in ("dry-run", "up-to-version", "force", "skip-validation", "checkpoint-only"):
        assert f"--{option}" in told
    assert "--resume" in told
