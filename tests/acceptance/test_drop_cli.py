"""Drop asks on a terminal, says what stays, and undrop brings the table back."""

import os
import pty
import select
import subprocess
import sys

import pytest
from deltalake import write_deltalake

import deltasql
from builders import a_table, rows
from commands import data
from deltasql.testing.invariants import check_invariants


@pytest.fixture
def uri(tmp_path):
    return f"deltasql://sqlite/{tmp_path}/c.db"


@pytest.fixture
def orders(uri, tmp_path):
    with deltasql.connect(uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        return table


def names(call, uri):
    return [row["name"] for row in data(call("-u", uri, "tables", "-o", "json"))]


def on_a_terminal(answer: str, *arguments: str) -> tuple[int, str]:
    """Run the program with a terminal that types an answer; return the exit code and the text."""
    main, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "deltasql", *arguments],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "NO_COLOR": "1"},
    )
    os.close(terminal)
    os.write(main, answer.encode())
    text = b""
    while select.select([main], [], [], 60)[0]:
        try:
            part = os.read(main, 4096)
        except OSError:  # the program has left
            break
        text += part
    os.close(main)
    return process.wait(60), " ".join(text.decode().split())


def test_on_a_terminal_drop_asks_and_says_what_stays(call, uri, orders):
    code, text = on_a_terminal("n\n", "-u", uri, "drop", "orders")
    assert code == 1
    assert "Drop orders (version 1)?" in text
    assert "`deltasql undrop orders` brings it back" in text
    assert "Nothing was done." in text
    assert names(call, uri) == ["orders"]
    code, text = on_a_terminal("y\n", "-u", uri, "drop", "orders")
    assert code == 0
    assert "orders was dropped." in text
    assert names(call, uri) == []


def test_on_a_terminal_yes_answers(call, uri, orders):
    code, text = on_a_terminal("", "-u", uri, "drop", "orders", "--yes")
    assert code == 0
    assert "?" not in text
    assert names(call, uri) == []


def test_a_script_drops_without_a_question_and_is_told_the_way_back(call, uri, orders):
    done = call("-u", uri, "drop", "orders")
    assert done.stderr.startswith("orders was dropped.")
    for part in ("rows in SQL", orders.location, "deltasql undrop orders", "as long as"):
        assert part in done.stderr
    facts = data(call("-u", uri, "undrop", "orders", "-o", "json"))
    assert facts["version"] == 1
    assert facts["state"] == "active"
    assert facts["table_id"] == orders.table_id
    assert names(call, uri) == ["orders"]
    with deltasql.connect(uri) as catalog:
        catalog.table("orders").append(rows(2))
        check_invariants(catalog, "orders")


def test_a_purge_still_needs_yes(call, uri, orders):
    told = call("-u", uri, "drop", "orders", "--purge", code=2).stderr
    assert "--yes" in told
    assert names(call, uri) == ["orders"]


def test_an_import_is_told_to_be_imported_again(call, uri, tmp_path):
    write_deltalake(tmp_path / "t", rows(1))
    call("-u", uri, "import", str(tmp_path / "t"), "--engine", "local")
    told = call("-u", uri, "drop", "t").stderr
    assert "can be imported again" in told
    assert "undrop" not in told


def test_dropped_tables_are_listed_and_chosen_by_their_ids(call, uri, tmp_path):
    made = []
    with deltasql.connect(uri) as catalog:
        for _ in range(2):
            made.append(a_table(catalog, tmp_path).table_id)
            catalog.drop("orders")
        a_table(catalog, tmp_path, "gone")
        catalog.drop("gone", purge=True)
    rows = data(call("-u", uri, "tables", "--dropped", "-o", "json"))
    assert [row["name"] for row in rows] == ["gone", "orders", "orders"]
    assert [row["table_id"] for row in rows[1:]] == made[::-1]
    assert [row["can_undrop"] for row in rows] == [False, True, True]
    assert all(row["dropped_at"] for row in rows)
    assert "dropped_at" in call("-u", uri, "tables", "--dropped").stdout
    call("-u", uri, "undrop", "orders", "--id", made[0])
    assert [row["table_id"] for row in data(call("-u", uri, "tables", "-o", "json"))] == made[:1]


def test_undrop_is_refused_with_a_hint(call, uri, orders, tmp_path):
    told = call("-u", uri, "undrop", "orders", code=1).stderr
    assert told.startswith("error[DS301]")
    assert "tables --dropped" in told
    call("-u", uri, "drop", "orders")
    with deltasql.connect(uri) as catalog:
        a_table(catalog, tmp_path)
    told = call("-u", uri, "undrop", "orders", code=1).stderr
    assert told.startswith("error[DS302]")
    assert "Rename" in told
    call("-u", uri, "drop", "orders", "--purge", "--yes")
    told = call("-u", uri, "undrop", "orders", "--dry-run").stderr
    assert "would come back at version 1" in told
    assert names(call, uri) == []


def test_a_purged_table_is_refused(call, uri, orders):
    call("-u", uri, "drop", "orders", "--purge", "--yes")
    assert call("-u", uri, "undrop", "orders", code=4).stderr.startswith("error[DS304]")


def test_both_databases_bring_tables_back(call, catalog_uri, tmp_path):
    call("-u", catalog_uri, "create", "a.t", "--location", tmp_path / "t", "--column", "id:long")
    call("-u", catalog_uri, "drop", "a.t", "--yes")
    call("-u", catalog_uri, "undrop", "a.t")
    call("-u", catalog_uri, "fsck", "a.t")
    assert names(call, catalog_uri) == ["a.t"]
