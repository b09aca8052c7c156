"""The command line as users meet it: a process with exit code, stdout and stderr."""

import json
import os
import subprocess
import sys

import pytest
from click import Context

from commands import data
from deltasql.cli.main import COMMANDS, cli
from deltasql.errors import DeltaSqlError

CANARY = "s3cr3t-canary"


def all_commands():
    root = Context(cli)
    for name in COMMANDS:
        command = cli.get_command(root, name)
        inner = getattr(command, "commands", None)
        yield from ([f"{name} {sub}".split() for sub in inner] if inner else [[name]])


@pytest.fixture
def orders(run, tmp_path):
    """A catalog with one table of three rows in two partitions, at version 2."""
    run("db", "init")
    columns = ["--column", "id:long", "--column", "day:date", "--partition-by", "day"]
    run("create", "orders", "--location", str(tmp_path / "orders"), *columns)
    script = """
import datetime, deltasql, os, pyarrow as pa
day = datetime.date(2026, 1, 1)
with deltasql.connect(os.environ["DELTASQL_URI"]) as catalog:
    orders = catalog.table("orders")
    orders.append(pa.table({"id": [1, 2], "day": [day] * 2}))
    orders.append(pa.table({"id": [3], "day": [day + datetime.timedelta(1)]}))
"""
    env = {**os.environ, "DELTASQL_URI": f"deltasql://sqlite/{tmp_path}/c.db"}
    subprocess.run([sys.executable, "-c", script], env=env, check=True, cwd=tmp_path)
    return "orders"


@pytest.mark.parametrize("words", list(all_commands()), ids=" ".join)
def test_every_command_has_help_with_an_example(run, words):
    text = run(*words, "--help").stdout
    assert "Example:" in text
    assert f"deltasql {words[0]}" in text or "deltasql -u" in text


def test_short_help_is_the_first_line_of_help():
    root = Context(cli)
    for name, (_, short) in COMMANDS.items():
        assert (cli.get_command(root, name).help or "").splitlines()[0] == short


def test_help_loads_nothing_heavy(run):
    code = (
        "import sys; sys.argv = ['deltasql', '--help']\n"
        "from deltasql.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    roots = {name.partition(".")[0] for name in done.stderr.split()}
    assert not roots & {"pyarrow", "psycopg", "rich", "obstore", "msgspec", "tomllib", "polars"}


def test_version_is_printed(run):
    assert run("--version").stdout.startswith("deltasql, version ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(run, shell):
    assert "_DELTASQL_COMPLETE" in run("completion", shell).stdout


def test_completion_completes_commands(run):
    env = {"_DELTASQL_COMPLETE": "bash_complete", "COMP_WORDS": "deltasql hi", "COMP_CWORD": "1"}
    assert "history" in run(**env).stdout


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["frob"], "frob"),
        (["tables", "--frob"], "--frob"),
        (["history", "t", "--limit", "x"], "--limit"),
        (["files", "t", "--version", "1", "--timestamp", "2026-01-01"], "not both"),
        (["create", "t", "--location", "x"], "--column"),
        (["alter", "t"], "--add"),
        (["--uri", "frob:x", "tables"], "deltasql://"),
        (["--set", "mirror.mood=x", "tables"], "mirror.mood"),
        (["--profile", "none", "tables"], "none"),
    ],
)
def test_wrong_usage_leaves_with_2_and_a_hint(run, words, named):
    done = run(*words, code=2)
    assert done.stderr.startswith("error[DS1")
    assert named in done.stderr.splitlines()[0]
    assert "\n\nhint: " in done.stderr
    assert done.stdout == ""


def test_no_catalog_named_is_told(run):
    assert "DELTASQL_URI" in run("tables", code=2, DELTASQL_URI="").stderr


@pytest.mark.req("R96")
@pytest.mark.parametrize("words", ["tables", "--debug tables", "doctor", "-vv tables"])
def test_no_output_shows_a_password(run, words):
    uri = f"postgresql://u:{CANARY}@127.0.0.1:1/db"
    done = subprocess.run(
        [sys.executable, "-m", "deltasql", *words.split()],
        env={**os.environ, "DELTASQL_URI": uri, "PGPASSWORD": CANARY, "PGCONNECT_TIMEOUT": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 6
    assert CANARY not in done.stdout + done.stderr
    assert CANARY not in run("history", f"postgresql://u:{CANARY}@h/d", "x", code=2).stderr


def test_a_table_that_is_not_there_leaves_with_1(run):
    run("db", "init")
    done = run("show", "none", code=1)
    assert done.stderr.startswith("error[DS301]: ")
    assert "none" in done.stderr


def test_a_catalog_that_is_not_there_leaves_with_6(run):
    uri = "postgresql://u@127.0.0.1:1/db"
    assert run("tables", code=6, DELTASQL_URI=uri).stderr.startswith("error[DS306]: ")


def test_an_unexpected_error_is_one_sentence(run, tmp_path, monkeypatch):
    script = (
        "import deltasql.cli.tables as t\n"
        "import sys\n"
        "def fail(*a, **k): raise RuntimeError('boom')\n"
        "t.tables.callback = fail\n"
        "from deltasql.cli.main import main\n"
        "sys.argv = ['deltasql', *sys.argv[1:]]\n"
        "main()\n"
    )
    for words, has_traceback in ((["tables"], False), (["--debug", "tables"], True)):
        done = subprocess.run(
            [sys.executable, "-c", script, *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert done.stderr.startswith(f"error[{DeltaSqlError.code}]: ")
        assert ("Traceback" in done.stderr) == has_traceback


def test_interrupt_leaves_with_130():
    script = (
        "import deltasql.cli.tables as t, sys\n"
        "def fail(*a, **k): raise KeyboardInterrupt\n"
        "t.tables.callback = fail\n"
        "from deltasql.cli.main import main\n"
        "sys.argv = ['deltasql', 'tables']\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 130
    assert b"Traceback" not in done.stderr


def test_db_status_tells_what_is_applied(run):
    assert run("db", "init").returncode == 0
    rows = data(run("db", "status", "-o", "json"))
    assert rows
    assert all(row["state"] == "applied" for row in rows)
    assert data(run("db", "migrate", "-o", "json"))["applied"] == []


def test_tables_in_every_format(run, orders):
    assert [row["name"] for row in data(run("tables", "-o", "json"))] == ["orders"]
    lines = run("-o", "ndjson", "tables").stdout.splitlines()
    assert json.loads(lines[0])["version"] == 2
    text = run("tables").stdout.splitlines()
    assert text[0].split() == ["name", "version", "state", "location"]
    assert text[1].split()[:3] == ["orders", "2", "active"]


def test_looking_at_a_table(run, orders, tmp_path):
    assert [r["version"] for r in data(run("history", "orders", "-o", "json"))] == [2, 1, 0]
    assert len(data(run("history", "orders", "--limit", "1", "-o", "json"))) == 1
    assert data(run("show", "orders", "-o", "json"))["version"] == 2
    assert len(data(run("files", "orders", "-o", "json"))) == 2
    assert len(data(run("files", "orders", "--version", "1", "-o", "json"))) == 1
    day = "day = '2026-01-02'"
    assert len(data(run("files", "orders", "--where", day, "-o", "json"))) == 1
    assert data(run("sample", "orders", "--where", day, "-o", "json")) == [
        {"id": 3, "day": "2026-01-02"}
    ]
    assert len(data(run("sample", "orders", "--limit", "2", "-o", "json"))) == 2
    changes = data(run("diff", "orders", "1", "2", "-o", "json"))
    assert [row["change"] for row in changes] == ["added"]


def test_the_uri_may_name_the_table(run, orders, tmp_path):
    uri = f"deltasql://sqlite/{tmp_path}/c.db?table=orders"
    assert data(run("show", "-u", uri, "-o", "json"))["version"] == 2
    assert "No table is named" in run("show", code=2).stderr


def test_a_bad_filter_leaves_with_2(run, orders):
    assert run("files", "orders", "--where", "day <> <>", code=2).stderr.startswith("error[DS207]")


def test_changing_a_table(run, orders):
    done = run("alter", "orders", "--add", "note:string", "--set", "mirror.mode=inline")
    assert "version 3" in done.stderr
    assert done.stdout == ""
    assert data(run("compact", "orders", "-o", "json"))["version"] >= 3
    dry = data(run("restore", "orders", "--version", "1", "--dry-run", "-o", "json"))
    assert dry["removes"] >= 1
    restored = data(run("restore", "orders", "--version", "1", "-o", "json"))["version"]
    assert len(data(run("sample", "orders", "-o", "json"))) == 2
    assert data(run("show", "orders", "-o", "json"))["version"] == restored


def test_rename_and_drop(run, orders, tmp_path):
    run("rename", "orders", "sales.orders")
    assert [row["name"] for row in data(run("tables", "-o", "json"))] == ["sales.orders"]
    run("drop", "sales.orders", "--dry-run")
    assert len(data(run("tables", "-o", "json"))) == 1
    refused = run("drop", "sales.orders", "--purge", code=2)
    assert "--yes" in refused.stderr
    run("drop", "sales.orders")
    assert data(run("tables", "-o", "json")) == []
    assert list((tmp_path / "orders").rglob("*.parquet"))


def test_purge_deletes_the_files(run, orders, tmp_path):
    run("drop", "orders", "--purge", "--yes")
    assert not list((tmp_path / "orders").rglob("*.parquet"))


@pytest.mark.req("R102")
def test_detach_needs_a_yes_and_frees_the_log(run, orders, tmp_path):
    assert "--yes" in run("detach", "orders", code=2).stderr
    run("detach", "orders", "--dry-run")
    assert data(run("show", "orders", "-o", "json"))["state"] == "active"
    run("detach", "orders", "--yes")
    assert data(run("show", "orders", "-o", "json"))["state"] == "detached"


@pytest.mark.req("R102")
def test_unfence_frees_a_log_without_its_database(run, orders, tmp_path):
    (tmp_path / "c.db").unlink()
    location = str(tmp_path / "orders")
    run("unfence", location, "--dry-run")
    run("unfence", location, "--yes")
    last = max((tmp_path / "orders/_delta_log").glob("*.json")).read_text()
    assert "protocol" in last
    assert "deltasqlManaged" not in last


def test_doctor_reports_a_healthy_catalog(run, orders):
    rows = {row["check"]: row for row in data(run("doctor", "-o", "json"))}
    assert {row["verdict"] for row in rows.values()} == {"ok"}
    assert rows["tables"]["detail"] == "1 active"


@pytest.mark.req("R90")
def test_both_databases_serve_the_same_commands(run, catalog_uri, tmp_path):
    uri = {"DELTASQL_URI": catalog_uri}
    run("db", "init", **uri)
    run("create", "a.t", "--location", str(tmp_path / "t"), "--column", "id:long", **uri)
    assert [row["name"] for row in data(run("tables", "-o", "json", **uri))] == ["a.t"]
    assert [row["operation"] for row in data(run("history", "a.t", "-o", "json", **uri))] == [
        "CREATE TABLE"
    ]
    assert data(run("db", "status", "-o", "json", **uri))
    run("drop", "a.t", "--purge", "--yes", **uri)
    assert "none" in run("doctor", **uri).stdout


def test_an_uninitialized_database_is_told(run, tmp_path):
    assert run("db", "status", code=1).stderr.startswith("error[DS309]")
    (tmp_path / "c.db").touch()
    assert run("db", "migrate", code=1).stderr.startswith("error[DS309]")
    assert run("db", "status", code=1).stderr.startswith("error[DS309]")


def test_quiet_prints_data_only(run, orders):
    assert run("-q", "alter", "orders", "--set", "x=1").stderr == ""
    assert run("-q", "tables").stdout
