"""The guide of backups: every step is run, on both databases, with writers running."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import deltasql
from builders import a_table, ids, rows
from commands import commands_in, parse_command
from deltasql.errors import CatalogReplacedError
from deltasql.testing.invariants import check_invariants

PAGE = Path(__file__).parents[2] / "docs/guides/backup-and-upgrade.md"


def shell_blocks() -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def block_with(words: str) -> str:
    (found,) = [block for block in shell_blocks() if words in block]
    return found


def run(block: str, folder: Path, uri: str, **env: str) -> None:
    path = f"{Path(sys.executable).parent}:{env.pop('PATH_FIRST', '')}:{os.environ['PATH']}"
    variables = {**os.environ, **env, "DELTASQL_URI": uri, "PATH": path}
    done = subprocess.run(
        ["bash", "-e", "-c", block],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_command_is_one_that_the_program_takes():
    found = commands_in(PAGE.read_text(encoding="utf-8"))
    assert found
    for words in found:
        assert parse_command(words), words


def back_up_sqlite(folder: Path, uri: str) -> None:
    if shutil.which("sqlite3"):
        run(block_with(".backup"), folder, uri)
        return
    with sqlite3.connect(folder / "shop.db") as source, sqlite3.connect(folder / "backup.db") as to:
        source.backup(to)


@pytest.mark.req("R2")
def test_a_sqlite_catalog_comes_back_from_a_backup_taken_under_a_writer(tmp_path):
    uri = f"deltasql://sqlite/{tmp_path}/shop.db"
    catalog = deltasql.connect(uri)
    table = a_table(catalog, tmp_path)
    table.append(rows(1))
    back_up_sqlite(tmp_path, uri)
    table.append(rows(2))
    table.wait_mirrored(timeout=30)
    shutil.copy(tmp_path / "backup.db", tmp_path / "again.db")
    (tmp_path / "again.db").replace(tmp_path / "shop.db")
    with pytest.raises(CatalogReplacedError):
        table.append(rows(3))
    with pytest.raises(CatalogReplacedError):
        deltasql.connect(uri)
    catalog.close()
    run(block_with("shop.db-wal"), tmp_path, uri)
    with deltasql.connect(uri) as restored:
        assert restored.table("orders").version == 2
        assert ids(restored.table("orders")) == [1, 2]
        restored.table("orders").append(rows(4))
        check_invariants(restored, "orders")


@pytest.mark.req("R2")
def test_a_postgresql_catalog_comes_back_from_a_dump(postgres_server, tmp_path):
    name = postgres_server.create_database_name()
    tools = {
        "PGHOST": "127.0.0.1",
        "PGPORT": str(postgres_server.port),
        "PGUSER": "postgres",
        "PATH_FIRST": str(postgres_server.build.bindir),
    }
    uri = postgres_server.uri(name)
    with deltasql.connect(uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        run(
            re.sub(r"\blake$", name, block_with("pg_dump"), flags=re.MULTILINE),
            tmp_path,
            uri,
            **tools,
        )
        table.append(rows(2))
        table.wait_mirrored(timeout=30)
    restored_uri = postgres_server.uri(f"{name}_r")
    block = block_with("pg_restore").replace("lake_restored", f"{name}_r")
    run(block, tmp_path, restored_uri, **tools)
    with deltasql.connect(restored_uri) as restored:
        assert ids(restored.table("orders")) == [1, 2]
        restored.table("orders").append(rows(3))
        check_invariants(restored, "orders")


def test_an_upgrade_is_looked_at_and_made(tmp_path):
    uri = f"deltasql://sqlite/{tmp_path}/shop.db"
    with deltasql.connect(uri) as catalog:
        table = a_table(catalog, tmp_path)
        run(block_with("db migrate"), tmp_path, uri)
        table.append(rows(1))
        assert ids(table) == [1]
