"""A new table is compared with the tables around it, not with all of them."""

from dataclasses import replace

import pytest

from builders import SCHEMA, a_table
from deltasql.errors import TableExistsError
from deltasql.metastore.references import keys_below
from deltasql.storage.resolve import canonical_location, location_key
from deltasql.testing import inspect


def around(catalog, tmp_path, place):
    table = inspect(catalog).metastore.table("inner")
    location = canonical_location(str(tmp_path / place))
    new = replace(table, name="new", location=location, location_key=location_key(location))
    return sorted(row.full_name for row in inspect(catalog).metastore.tables_around(new))


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("a", ["inner", "nested"]),
        ("a/b", ["inner", "nested"]),
        ("a/b/c", ["inner", "nested"]),
        ("a/b/c/d/e", ["inner", "nested"]),
        ("a/b/d", ["inner"]),
        ("a/c", []),
        ("ab", []),
        ("a/b0", []),
        ("a/b-", []),
    ],
)
def test_only_tables_around_a_place_are_read(catalog, tmp_path, place, found):
    catalog.create_table("inner", location=str(tmp_path / "a/b"), schema=SCHEMA)
    # a table inside of another comes from catalogs that are older than the check
    with inspect(catalog).database.write() as tx:
        tx.execute(
            "insert_table",
            table_id="00000000-0000-4000-8000-000000000000",
            namespace="",
            name="nested",
            location=f"file://{tmp_path}/a/b/c/d",
            location_key=f"file://{tmp_path}/a/b/c/d",
            created_at=1,
            last_ict=0,
            first_version=0,
            mirrored_through=-1,
            log_floor=0,
            state="active",
            properties="{}",
        )
    for number in range(3):
        a_table(catalog, tmp_path, f"elsewhere{number}")
    assert around(catalog, tmp_path, place) == found


@pytest.mark.parametrize("place", ["a", "a/b", "a/b/c", "link", "link/c"])
def test_a_table_in_or_around_another_is_refused(catalog, tmp_path, place):
    catalog.create_table("inner", location=str(tmp_path / "a/b"), schema=SCHEMA)
    (tmp_path / "link").symlink_to(tmp_path / "a/b")
    with pytest.raises(TableExistsError):
        catalog.create_table("new", location=str(tmp_path / place), schema=SCHEMA)
    for number, beside in enumerate(["ab", "a/b0", "a/c"]):
        place = str(tmp_path / beside)
        catalog.create_table(f"new{number}", location=place, schema=SCHEMA)
    with pytest.raises(TableExistsError, match="already"):
        catalog.create_table("inner", location=str(tmp_path / "x"), schema=SCHEMA)


SPELLINGS = ["az://c/lake/orders", "abfss://c@account.dfs.core.windows.net/lake/orders"]


def put_row(tx, number, name, location):
    tx.execute(
        "insert_table",
        table_id=f"00000000-0000-4000-8000-00000000000{number}",
        namespace="",
        name=name,
        location=location,
        location_key=location_key(location),
        created_at=1,
        last_ict=0,
        first_version=0,
        mirrored_through=-1,
        log_floor=0,
        state="active",
        properties="{}",
    )


@pytest.mark.parametrize(("first", "second"), [SPELLINGS, SPELLINGS[::-1]])
def test_a_container_of_azure_is_one_place_in_both_spellings(catalog, table, first, second):
    with inspect(catalog).database.write() as tx:
        put_row(tx, 1, "theirs", first)
        put_row(tx, 2, "beside", first + "2")
    book = inspect(catalog).metastore
    row = replace(book.table("orders"), name="new", table_id="x")
    found = {}
    for place in (second, f"{second}/part", second.removesuffix("/orders"), f"{second}/../x"):
        new = replace(row, location=canonical_location(place), location_key=location_key(place))
        found[place.removeprefix(second)] = [one.name for one in book.tables_around(new)]
    outer = second.removesuffix("/orders")
    assert found == {"": ["theirs"], "/part": ["theirs"], outer: ["beside", "theirs"], "/../x": []}


def test_files_of_a_clone_are_seen_in_both_spellings_of_a_container():
    below = keys_below([SPELLINGS[0]], [f"{SPELLINGS[1]}/day=a/x.parquet"], own=False)
    assert list(below) == ["day=a/x.parquet"]
    below = keys_below([SPELLINGS[1]], [f"{SPELLINGS[0]}/day=a/x.parquet"], own=False)
    assert list(below) == ["day=a/x.parquet"]
