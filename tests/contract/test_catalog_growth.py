"""What a table costs does not grow with the catalog: nothing walks over the rows of all tables."""

import json
import re

import psycopg
import pytest

import deltasql
from builders import a_table, some
from deltasql.database.named_queries import load_queries
from deltasql.testing import inspect

pytestmark = pytest.mark.req("R95")
# SQLite has one plan for every size; PostgreSQL plans by sizes.
ON_SQLITE = pytest.mark.parametrize("catalog_uri", ["sqlite"], indirect=True)
ON_POSTGRES = pytest.mark.parametrize("catalog_uri", ["postgres"], indirect=True)
TABLES, VERSIONS, FILES = 1_500, 8, 20_000
# They have a row for each file, version or partition of every table.
BIG = re.compile(r"dl_(files|removed_files|partitions|stats_\w+|table_versions|mirror_status)")
# Files that another table may refer to: few, by an index of just these.
OF_ALL_TABLES = {"absolute_paths": {"dl_files", "dl_removed_files"}}
PARTS = {
    "columns": "f.path",
    "inner": "f.path, f.added_version, f.file_id",
    "stats_key": "1",
    "reach": "1",
    **{name: name for name in ("low", "high", "least")},
    **dict.fromkeys(("live_filter", "filter", "live_hint"), ""),
}


@pytest.fixture
def table(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as opened:
        opened.create_if_missing()
        yield a_table(opened, tmp_path)


@pytest.fixture
def server(table):
    """A connection to a PostgreSQL that holds the table and many others beside it."""
    database = inspect(table).database
    with psycopg.connect(database._conninfo, autocommit=True) as connection:
        connection.execute(f"set search_path to {database.schema}")
        connection.execute("set plan_cache_mode to force_generic_plan")  # as deltasql does
        yield connection


def walked(database, name):
    """The tables that SQLite walks over from end to end to answer a statement."""
    places = {
        f"row.{row}": "1" for row in re.findall(r"\{row\.(\w+)\}", load_queries("sqlite")[name])
    }
    text = database.queries.get(name, **places, **PARTS).text.replace("nullif(?2, x'')", "null")
    aliases = {alias: table for table, alias in re.findall(r"\b(dl_\w+)(?: as)? (\w+)", text)}
    with database.read() as tx:
        values = b"{}" if "?1" in text else None
        plan = [row[3] for row in tx.connection.rows(f"explain query plan {text}", values)]
    inner = {step.split()[-1] for step in plan if step.startswith(("CO-ROUTINE", "MATERIALIZE"))}
    found = [re.match(r"SCAN (\w+)", step) for step in plan]
    return {aliases.get(one[1], one[1]) for one in found if one and one[1] not in inner}


def is_statement(name, text):
    return "import" not in name and re.match(r"(select|insert|update|delete|with)\b", text)


@ON_SQLITE
def test_no_statement_of_sqlite_walks_over_the_rows_of_all_tables(table):
    database = inspect(table).database
    names = [name for name, text in load_queries("sqlite").items() if is_statement(name, text)]
    for name in some(names):
        big = {table for table in walked(database, name) if BIG.fullmatch(table)}
        assert big == OF_ALL_TABLES.get(name, set()), name


@ON_SQLITE
def test_what_speaks_of_a_removed_file_later_is_found_by_its_key(table):
    database = inspect(table).database
    text = database.queries.get("tombstones_at", columns="f.path").text
    with database.read() as tx:
        rows = tx.connection.rows(f"explain query plan {text}", b"{}")
    searched = [str(row[3]) for row in rows if str(row[3]).startswith("SEARCH n ")]
    assert len(searched) == 2
    assert all("(table_key=? AND file_key=?)" in one for one in searched)


def add_tables(connection):
    """Many tables of a few versions each, all of them mirrored but five."""
    connection.execute(
        """insert into dl_tables (table_id, name, location, location_key, created_at,
        current_version, last_ict, metadata_version, protocol_version, state, first_version,
        mirrored_through, log_floor) select gen_random_uuid(), 't' || i, 'm:/t' || i, 'm:/t' || i,
        now(), %(last)s, 0, 0, 0, 'active', 0, %(last)s - (i <= 5)::int * 2, 0
        from generate_series(1, %(tables)s::int) i""",
        {"last": VERSIONS - 1, "tables": TABLES},
    )
    connection.execute(
        """insert into dl_table_versions (table_id, version, committed_at, operation,
        operation_params, operation_metrics, is_blind_append, commit_id, adds, removes, actions,
        bytes_added, bytes_removed, payload_bytes, digest, origin) select table_id, v, v, 'WRITE',
        '{}', '{}', true, v, 0, 0, 0, 0, 0, 0, '', 'commit'
        from dl_tables, generate_series(0, %s::int - 1) v where name <> 'orders'""",
        (VERSIONS,),
    )
    connection.execute(
        """insert into dl_mirror_status (table_id, version, status, json_written,
        checkpoint_written, digest, updated_at) select table_id, version, 'SUCCESS', true, false,
        '', now() from dl_table_versions where commit_id = version::text"""
    )
    connection.execute("vacuum analyze")


def nodes(plan):
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def explained(connection, table, name):
    text = inspect(table).database.queries.get(name).text
    values = {"table_id": table.table_id}
    found = connection.execute(f"explain (analyze, format json) {text}", values).fetchone()[0]
    return list(nodes((json.loads(found) if isinstance(found, str) else found)[0]["Plan"]))


@ON_POSTGRES
@pytest.mark.parametrize("name", ["behind_tables", "count_missing_mirror_rows"])
def test_the_mirror_looks_at_the_versions_of_tables_that_are_behind(table, server, name):
    add_tables(server)
    read = 0
    for node in explained(server, table, name):
        if BIG.fullmatch(node.get("Relation Name", "")):
            each = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            read += each * node["Actual Loops"]
    assert 0 < read <= 50  # of 12,000 versions


@ON_POSTGRES
def test_files_of_other_tables_are_known_to_be_few(table, server):
    """Or the planner reads all files of the catalog for the few that an index names."""
    server.execute(
        """insert into dl_files (file_id, table_key, file_key, path, size, modification_time,
        partition_values, data_change, added_version) select i, 2 + i * 7919 %% 100,
        gen_random_uuid(), 'part-' || i, 1, 1, '{}', true, 1
        from generate_series(1, %s::int) i""",
        (FILES,),
    )
    server.execute("vacuum analyze")
    scans = [n for n in explained(server, table, "absolute_paths") if "Relation Name" in n]
    of_files = some(node for node in scans if node["Relation Name"] == "dl_files")
    assert [node["Index Name"] for node in of_files] == ["dl_files_absolute"]
    assert of_files[0]["Plan Rows"] < 10
