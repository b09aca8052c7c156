"""Hostile names and paths: they round-trip or are refused, and never reach anything else."""

import contextlib
import os
import shutil
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltasql
from builders import NO_MIRROR, SCHEMA, a_table, an_add, ids, paths, rows
from deltasql.errors import (
    BadPredicateError,
    BadUriError,
    ConfigError,
    CorruptDataError,
    DeltaSqlError,
    UnsafePathError,
)
from deltasql.protocol.actions import DeletionVector, Txn

FRAGMENTS = [
    "o'hara",
    'say "hi"',
    "back\\slash",
    "back`tick",
    "'; drop table dl_tables; --",
    "'); delete from dl_files; --",
    '"; drop schema deltasql cascade; --',
    "' or '1'='1",
    "$$; drop table dl_tables; $$",
    "/* comment */ x",
    "%s %(name)s %%",
    ":name ?1 $1 {}",
    "日本 😀 ñ",
    "%2e%2e",
    "%00",
    "a/b",
    "/etc/passwd",
]
# a dot parts namespace and name
NAMES = [*FRAGMENTS, "../../etc/passwd", "a.b.c", 'o\'hara."quoted"', "%2e%2e.%2e%2e"]
REFUSED = ["", " ", "..", ".", "a.", "nul\0", "line\nfeed", "esc\x1b[2J", "\u202eevil", "\ud800"]


@pytest.fixture
def catalog(catalog_uri):
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as opened:
        opened.create_if_missing()
        yield opened


def create(catalog, name):
    return catalog.create_table(name, location=f"memory://{uuid.uuid4().hex}/t", schema=SCHEMA)


@pytest.mark.req("R96")
def test_names_round_trip_whatever_they_hold(catalog):
    bystander = create(catalog, "bystander")
    for name in NAMES:
        create(catalog, name).commit([an_add(f"{name}.parquet", partition_values={})])
    assert {info.name for info in catalog.tables()} == {*NAMES, "bystander"}
    for number, name in enumerate(NAMES):
        assert paths(catalog.table(name)) == {f"{name}.parquet"}
        catalog.rename(name, f"renamed{number}")
        assert catalog.table(f"renamed{number}").version == 1
        catalog.rename(f"renamed{number}", name)
    for name in NAMES:
        catalog.drop(name, force=True)
    assert [info.name for info in catalog.tables()] == ["bystander"]
    assert bystander.version == 0


@pytest.mark.parametrize("name", REFUSED)
def test_names_that_nobody_can_type_are_refused_and_leave_nothing(catalog, name):
    with pytest.raises(ConfigError) as error:
        create(catalog, name)
    assert str(error.value).isprintable()
    assert catalog.tables() == []
    with pytest.raises(DeltaSqlError):
        catalog.table(name)


def test_text_in_every_place_is_data(catalog):
    table = create(catalog, "t")
    for number, text in enumerate(FRAGMENTS, start=1):
        table.commit(
            [an_add(text, partition_values={}, tags={text: text}), Txn(app_id=text, version=1)],
            commit_id=text,
            user_metadata=text,
            operation=text,
        )
        entry = table.history(1)[0]
        assert (entry.commit_id, entry.user_metadata, entry.operation) == (text, text, text)
        assert table.commit([an_add("x", partition_values={})], commit_id=text) == number
    table.alter(properties={text: text for text in FRAGMENTS}, description=FRAGMENTS[4])
    assert paths(table) == set(FRAGMENTS)
    assert {txn.app_id for txn in table.snapshot().txns()} == set(FRAGMENTS)
    configuration = table.snapshot().metadata.configuration
    assert {text: configuration[text] for text in FRAGMENTS} == {t: t for t in FRAGMENTS}
    assert table.version == len(FRAGMENTS) + 1


def test_filters_hold_values_not_sql(catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    for number, text in enumerate(FRAGMENTS):
        table.commit([an_add(f"f{number}", day=text)])
    for number, text in enumerate(FRAGMENTS):
        # filters are Spark's SQL: in a text a backslash takes the next character as it is
        literal = "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
        assert paths(table, where=f"day = {literal}") == {f"f{number}"}
        assert len(paths(table, where=f"name = {literal}")) in range(len(FRAGMENTS) + 1)
    for where in ("1=1; drop table dl_tables", "day = (select 1)", "pg_sleep(9)", "day = day)"):
        with pytest.raises(BadPredicateError):
            paths(table, where=where)
    assert len(paths(table)) == len(FRAGMENTS)


@pytest.mark.parametrize(
    "schema", ['x"; drop schema public cascade; --', "x' or 1=1", "SeLeCt", "ü"]
)
def test_a_schema_name_is_an_identifier(postgres_server, schema):
    from urllib.parse import quote

    database = postgres_server.create_database_name()
    uri = postgres_server.uri(database, quote(schema, safe=""))
    with (
        contextlib.suppress(BadUriError),  # to refuse it is right as well
        deltasql.connect(uri, settings=NO_MIRROR) as catalog,
    ):
        create(catalog, "t")
        assert [info.name for info in catalog.tables()] == ["t"]


# --- paths ---------------------------------------------------------------------------------

SECRET_ID = 424_242


@pytest.fixture
def place(tmp_path):
    """A table's root beside a Parquet file that would be a fine part of the table."""
    outside = tmp_path / "outside"
    outside.mkdir()
    data = pa.table({"id": [SECRET_ID], "name": ["secret"]}, schema=SCHEMA.remove(2))
    pq.write_table(data, outside / "x.parquet")
    (tmp_path / "x.parquet").write_bytes((outside / "x.parquet").read_bytes())
    return tmp_path


@pytest.fixture
def table(place):
    with deltasql.connect(f"deltasql://sqlite/{place}/c.db", settings=NO_MIRROR) as catalog:
        root = place / "lake" / "orders"
        made = catalog.create_table(
            "orders",
            location=str(root),
            schema=SCHEMA,
            partition_by=["day"],
            properties={"delta.enableDeletionVectors": "true"},
        )
        root.mkdir(parents=True, exist_ok=True)
        made.root, made.catalog = root, catalog
        yield made


def hostile(place) -> list[str]:
    outside = f"{place}/outside/x.parquet"
    return [
        "../../outside/x.parquet",
        "%2e%2e/%2e%2e/outside/x.parquet",
        "%2E%2e/..%2Foutside/x.parquet",
        "..%2f..%2foutside%2fx.parquet",
        "day=a/../../../outside/x.parquet",
        "./../../outside/x.parquet",
        outside,
        outside.replace("/", "%2f"),
        f"/{outside}",
        f"file:{outside}",
        f"file://{outside}",
        f"file://localhost{outside}",
        f"FILE://{outside}",
        f"file:///{place}/lake/orders/../../outside/x.parquet",
        f"{place}/lake/orders2/../../outside/x.parquet",
        "/etc/passwd",
        "file:///etc/hostname",
        "s3://other/x.parquet",
        "http://127.0.0.1:9/x.parquet",
        "memory://other/x.parquet",
        "..",
        "../x.parquet",
        "//outside/x.parquet",
        "a\\..\\..\\x.parquet",
        "%00",
        "%ff",
        "linked.parquet",
        "folder/x.parquet",
        "deep/folder/x.parquet",
    ]


def spread_links(table, place) -> None:
    outside = place / "outside"
    (table.root / "linked.parquet").symlink_to(outside / "x.parquet")
    (table.root / "folder").symlink_to(outside, target_is_directory=True)
    (table.root / "deep").mkdir()
    (table.root / "deep" / "folder").symlink_to("../../../outside", target_is_directory=True)


def files_outside(place):
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file()
        and not path.is_relative_to(place / "lake")
        and not path.name.startswith("c.db")
    }


@pytest.mark.parametrize("number", range(29))
def test_a_scan_reads_nothing_outside_the_table(table, place, number):
    spread_links(table, place)
    path = hostile(place)[number]
    size = (place / "x.parquet").stat().st_size
    table.append(rows(1))
    table.commit([an_add(path, size=size)])
    assert path in paths(table)
    with pytest.raises((UnsafePathError, CorruptDataError)) as error:
        table.scan().to_arrow()
    assert str(error.value).isprintable()
    assert str(SECRET_ID) not in str(error.value)


def test_all_hostile_paths_are_tried(place):
    assert len(hostile(place)) == 29


VECTORS = [
    ("p", "/etc/passwd"),
    ("p", "file:///etc/hostname"),
    ("p", "s3://other/deletion_vector.bin"),
    ("p", "../../outside/x.parquet"),
    ("u", "../../outside/ab^-aqEH.-t@S}K{vb[*k^"),
    ("u", "%2e%2e/ab^-aqEH.-t@S}K{vb[*k^"),
    ("u", "folder/ab^-aqEH.-t@S}K{vb[*k^"),
    ("u", "short"),
    ("i", "not z85 at all"),
]


@pytest.mark.parametrize(("kind", "where"), VECTORS)
def test_a_deletion_vector_is_read_from_the_table_only(table, place, kind, where):
    spread_links(table, place)
    table.append(rows(1))
    [add] = table.snapshot().files(["path", "size"]).to_pylist()
    vector = DeletionVector(
        storage_type=kind, path_or_inline_dv=where, offset=1, size_in_bytes=34, cardinality=1
    )
    table.commit([an_add(add["path"], size=add["size"], deletion_vector=vector)])
    with pytest.raises((UnsafePathError, CorruptDataError)):
        table.scan().to_arrow()


@pytest.mark.req("R92")
def test_purge_deletes_nothing_outside_the_table(table, place):
    for path in hostile(place):
        if path not in {"folder/x.parquet", "deep/folder/x.parquet"}:
            table.commit([an_add(path)])
    table.append(rows(1))
    spread_links(table, place)
    before = files_outside(place)
    inside = next(table.root.rglob("day=a/*.parquet"))
    table.catalog.drop("orders", purge=True)
    assert files_outside(place) == before
    assert not inside.exists()
    assert table.catalog.tables() == []


def test_purge_does_not_follow_linked_folders(table, place):
    table.commit([an_add("folder/x.parquet"), an_add("deep/folder/x.parquet")])
    spread_links(table, place)
    before = files_outside(place)
    with contextlib.suppress(UnsafePathError):
        table.catalog.drop("orders", purge=True)
    assert files_outside(place) == before


def test_a_log_that_is_a_link_to_elsewhere_is_not_written_read_or_deleted(table, place):
    shutil.rmtree(table.root / "_delta_log", ignore_errors=True)
    (table.root / "_delta_log").symlink_to(place / "outside", target_is_directory=True)
    (place / "outside" / f"{0:020d}.json").write_text("{}")
    before = files_outside(place)
    with pytest.raises(DeltaSqlError):
        table.wait_mirrored(timeout=0.3)
    assert table.append(rows(1)) == 1
    assert ids(table) == [1]
    with contextlib.suppress(UnsafePathError):
        table.catalog.drop("orders", purge=True)
    assert files_outside(place) == before


def test_partition_values_make_folders_below_the_root_only(table, place):
    before = files_outside(place)
    for number, day in enumerate(
        ["..", "../../x", "/etc", "a/../..", "%2e%2e", "", "\\", "é", "~"]
    ):
        table.append(rows(number, day=day))
    assert ids(table) == list(range(9))
    assert files_outside(place) == before
    found = [path for path in place.rglob("*.parquet") if path.is_relative_to(table.root)]
    assert len(found) == 9
    assert all(os.path.realpath(path).startswith(f"{table.root}/day=") for path in found)
