"""Statistics of an imported table are indexed: a plan reads the files it needs, and no fewer."""

import random

import pyarrow as pa
import pytest

import deltasql
from builders import some
from deltasql.imports.job import ImportOptions, TableImport
from deltasql.metastore.stats_index import load_columns
from deltasql.protocol.log_names import commit_key
from deltasql.testing import inspect

FILES = 30


def rows_of(number: int) -> pa.Table:
    """Rows whose numbers and words only this file has, but for a few files without words."""
    low = number * 10
    words = [f"w{low + n:04d}" if number % 7 else None for n in range(10)]
    ids = pa.array(range(low, low + 10), pa.int64())
    return pa.table({"id": ids, "word": pa.array(words, pa.string())})


@pytest.fixture
def source(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    place = str(tmp_path / "t")
    for number in range(FILES):
        deltalake.write_deltalake(place, rows_of(number), mode="append")
    deltalake.DeltaTable(place).delete("id >= 40 and id < 60")
    return place


def do_import(catalog, source, **options):
    return TableImport(
        catalog._lazy.create().connection, str(source), "t", ImportOptions(**options)
    ).run()


def columns(catalog):
    book = inspect(catalog).metastore
    with book.database.read() as tx:
        return load_columns(tx, book.table("t").table_id)


def planned(catalog, where, version=None):
    book = inspect(catalog).metastore
    row = book.table("t")
    snapshot = book.snapshot(row.table_id, version=version, where=where)
    return sorted(snapshot.files(columns=("path",))["path"].to_pylist())


def without_index(catalog, wanted):
    """What the same plans give where only each file's own statistics decide."""
    database = inspect(catalog).database
    with database.write() as tx:
        text = "update dl_stats_columns set since_version = since_version + 1000000"
        tx.connection.execute(text if database.dialect.name == "sqlite" else text.encode())
    try:
        return [planned(catalog, where) for where in wanted]
    finally:
        with database.write() as tx:
            text = "update dl_stats_columns set since_version = since_version - 1000000"
            tx.connection.execute(text if database.dialect.name == "sqlite" else text.encode())


def predicates(seed: int) -> list[str]:
    rng = random.Random(seed)
    found = []
    for _ in range(30):
        low = rng.randrange(FILES * 10)
        high = low + rng.randrange(40)
        found.append(
            rng.choice(
                [
                    f"id = {low}",
                    f"id >= {low} and id < {high}",
                    f"word = 'w{low:04d}'",
                    f"word > 'w{low:04d}' and id < {high}",
                    f"id < {low}",
                    f"word is null and id > {low}",
                ]
            )
        )
    return found


def test_plans_by_the_index_are_those_of_the_statistics(catalog, source):
    do_import(catalog, source)
    found = columns(catalog)
    assert [(c.name, c.kind, c.is_whole) for c in found] == [
        ("id", "num", True),
        ("word", "text", True),
    ]
    wanted = predicates(3)
    assert [planned(catalog, where) for where in wanted] == without_index(catalog, wanted)
    assert len(planned(catalog, "id = 75")) == 1
    assert planned(catalog, "id = 45") == []
    # an older version is not covered by the index: it must not be asked
    assert len(planned(catalog, "id = 45", version=FILES - 1)) == 1


def test_the_index_is_what_answers(catalog, source):
    do_import(catalog, source)
    database = inspect(catalog).database
    with database.write() as tx:
        text = "delete from dl_stats_num"
        tx.connection.execute(text if database.dialect.name == "sqlite" else text.encode())
    assert planned(catalog, "id = 75") == []


def test_what_a_followed_log_brings_is_indexed(catalog, source):
    import deltalake

    do_import(catalog, source)
    deltalake.write_deltalake(source, rows_of(50), mode="append")
    deltalake.DeltaTable(source).delete("id >= 70 and id < 80")
    done = do_import(catalog, source, resume=True)
    assert done.validation is not None
    assert done.validation.is_equal
    assert len(planned(catalog, "id = 505")) == 1
    assert planned(catalog, "id = 75") == []
    # the version before is the first that the index covers
    assert len(planned(catalog, "id = 75", version=done.row.current_version - 1)) == 1
    wanted = predicates(4)
    assert [planned(catalog, where) for where in wanted] == without_index(catalog, wanted)


def test_a_column_that_new_metadata_drops_is_no_longer_asked(catalog, source):
    import deltalake

    do_import(catalog, source)
    other = pa.table({"id": ["a", "b"], "more": pa.array([1, 2], pa.int64())})
    deltalake.write_deltalake(source, other, mode="overwrite", schema_mode="overwrite")
    deltalake.write_deltalake(source, other, mode="append")
    do_import(catalog, source, resume=True)
    closed = [c for c in columns(catalog) if c.until_version is not None]
    assert {c.name for c in closed} == {"id", "word"}
    assert len(planned(catalog, "id = 'a'")) == 2
    assert len(planned(catalog, "more = 2")) == 2


def test_commits_after_the_cut_over_are_indexed_too(catalog_uri, catalog, source):
    """Also those of somebody who knew the table before it had an index."""
    do_import(catalog, source, index=False)
    with deltasql.connect(catalog_uri) as other:
        table = other.table("t")
        assert len(planned(other, "id = 75")) == 1
        assert columns(catalog) == []
        do_import(catalog, source, resume=True)
        catalog.cutover("t")
        table.append(rows_of(60))
        catalog.table("t").append(rows_of(61))
        for reader in (other, catalog):
            for number in (605, 615, 75):
                assert len(planned(reader, f"id = {number}")) == 1
    assert all(c.is_whole for c in some(columns(catalog)))


def test_a_wish_that_cannot_be_fulfilled_leaves_the_table_without_an_index(catalog, tmp_path):
    deltalake = pytest.importorskip("deltalake")
    place = tmp_path / "w"
    deltalake.write_deltalake(str(place), rows_of(1))
    first = place / commit_key(0)
    wish = '"configuration":{"deltasql.statsIndexColumns":"nowhere"}'
    first.write_text(first.read_text().replace('"configuration":{}', wish))
    assert "nowhere" in first.read_text()
    do_import(catalog, place)
    assert columns(catalog) == []
    assert len(planned(catalog, "id = 15")) == 1
