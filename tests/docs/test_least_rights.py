"""The guide on least rights: its SQL runs, its commands are understood, its refusals are real."""

import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

import deltasql
from builders import a_table
from commands import commands_in, parse_command
from deltasql.database.postgres_errors import mapped
from deltasql.errors import LoginRefusedError
from deltasql.settings import Settings

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/guides/least-rights.md").read_text(encoding="utf-8")
pytestmark = pytest.mark.req("R36", "R96")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def refusal(role: str) -> str:
    return next(block for block in blocks("text") if f"'{role}'" in block)


@pytest.fixture
def lake(postgres_server):
    """A database on which the guide was followed word by word; URIs by login."""
    name = postgres_server.create_database_name()
    dsn = postgres_server.dsn(name)
    (logins,) = blocks("sql")
    names = re.findall(r"create role (\w+)", logins)
    run_script(postgres_server, dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(logins)
    where = f"host={postgres_server.host}&port={postgres_server.port}"
    uris = {user: f"deltasql://postgres/{name}/deltasql?{where}&user={user}" for user in names}
    assert run("-u", uris["lake_admin"], "db", "init").returncode == 0
    run_script(postgres_server, dsn)
    yield uris
    groups = [f"deltasql_{role}" for role in ("owner", "reader", "writer", "worker", "operator")]
    with psycopg.connect(dsn, autocommit=True) as connection:
        for role in (*names, *groups):
            connection.execute(f"drop owned by {role} cascade")
            connection.execute(f"drop role {role}")


def run_script(server, dsn: str) -> None:
    script = ROOT / "deploy/postgres/roles.sql"
    command = [server.build.bindir / "psql", "-X", "-q", "-v", "schema=deltasql", "-f", script, dsn]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deltasql", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_guide_can_be_followed_and_its_refusals_are_the_program_s(lake, tmp_path):
    with deltasql.connect(lake["dba"]) as catalog:
        a_table(catalog, tmp_path)
    for login in ("analyst", "etl"):
        done = run("-u", lake[login], "drop", "orders", "--yes")
        assert (done.returncode, done.stderr) == (1, refusal(login))
    with deltasql.connect(lake["mirror"]) as catalog:
        assert catalog.mirror.run_once().mirrored == 0


def test_the_refused_login_is_told_as_the_guide_shows_it():
    said = 'connection to server at "db", port 5432 failed: SSL error: certificate verify failed'
    with pytest.raises(LoginRefusedError) as error, mapped():
        raise psycopg.OperationalError(f"connection failed: {said}")
    shown = f"error[DS312]: {error.value.message}\n\nhint: {error.value.advice}\n"
    assert shown in blocks("text")


def test_every_command_is_one_that_the_program_takes():
    found = commands_in(GUIDE)
    assert found
    assert all(parse_command(words) for words in found)


def test_the_options_for_encryption_are_read_as_the_guide_writes_them(tmp_path):
    (tmp_path / "deltasql.toml").write_text(blocks("toml")[0], encoding="utf-8")
    store = Settings.load({}, tmp_path).stores["s3://my-bucket"]
    assert store["aws_server_side_encryption"] == "aws:kms"
