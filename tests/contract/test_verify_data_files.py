"""Recorded sizes of data files are those on the store, and `verify` compares them."""

import os
from pathlib import Path

import pytest

import deltasql
import servers
from builders import an_add, rows
from deltasql.api.write.in_flight import require_sizes
from deltasql.errors import CorruptDataError
from deltasql.mirror.compare import Difference
from deltasql.storage.paths import resolve_path

pytestmark = pytest.mark.req("R34")


def sizes(table) -> dict[str, int]:
    files = table.snapshot().files(["path", "size"]).to_pylist()
    return {resolve_path(row["path"]).key: row["size"] for row in files}


def stored(table) -> dict[str, int]:
    return {key: table.store.head(key).size for key in sizes(table)}


def verify(catalog):
    found = catalog.mirror.verify("orders", data_files=True)
    return [(one.difference, one.key) for one in found]


@pytest.fixture
def filled(catalog, table):
    """Three partitions, one of whose names is written with percent signs in the log."""
    for day in ("a", "b c", "ü/:"):
        table.append(rows(*range(50), day=day))
    return table


def place_of(table, key: str) -> Path:
    return Path(table.store.local_path(key))


def test_files_as_they_were_written_are_no_finding(catalog, filled):
    assert len(sizes(filled)) == 3
    assert verify(catalog) == []
    filled.delete("day = 'a'")
    filled.compact()
    assert verify(catalog) == []


@pytest.mark.parametrize("grown", [1, 1000])
def test_a_recorded_size_that_is_too_small_is_found(catalog, filled, grown):
    """Spark would miss the row groups at its end, without an error."""
    key = sorted(sizes(filled))[1]
    with place_of(filled, key).open("ab") as file:
        file.write(b"x" * grown)
    (found,) = catalog.mirror.verify("orders", data_files=True)
    assert (found.difference, found.key) == (Difference.WRONG_DATA_SIZE, key)
    recorded = sizes(filled)[key]
    assert found.detail == f"has {recorded + grown} bytes, SQL and the log record {recorded}"
    assert "Spark may miss rows" in found.action
    assert catalog.mirror.verify("orders") == []


def test_a_file_cut_short_and_one_that_is_gone_are_found(catalog, filled):
    first, second, _ = sorted(sizes(filled))
    os.truncate(place_of(filled, first), 10)
    place_of(filled, second).unlink()
    assert sorted(verify(catalog)) == [
        (Difference.MISSING_DATA_FILE, second),
        (Difference.WRONG_DATA_SIZE, first),
    ]


def test_only_live_files_count(catalog, filled):
    (gone,) = [key for key in sizes(filled) if "day=a/" in key]
    filled.delete("day = 'a'")
    place_of(filled, gone).unlink()
    (place_of(filled, gone).parent / "stranger.parquet").write_bytes(b"x")
    assert verify(catalog) == []


def test_a_size_that_another_writer_recorded_wrong_is_found(catalog, filled):
    filled.append(rows(7, day="a"))
    key = max(sizes(filled), key=lambda key: place_of(filled, key).stat().st_mtime_ns)
    whole = filled.snapshot().files(["path", "size", "stats"]).to_pylist()
    (given,) = [row for row in whole if resolve_path(row["path"]).key == key]
    copy = place_of(filled, key).with_name("copy.parquet")
    copy.write_bytes(place_of(filled, key).read_bytes())
    path = given["path"].rpartition("/")[0] + "/copy.parquet"
    filled.commit([an_add(path, size=given["size"] - 5, stats=given["stats"])])
    assert [found[0] for found in verify(catalog)] == [Difference.WRONG_DATA_SIZE]


def test_new_files_of_another_size_are_not_committed(filled):
    adds = [an_add(key, size=size) for key, size in stored(filled).items() if "day=a/" in key]
    assert len(adds) == 1
    require_sizes(adds, filled.store)
    wrong = an_add(adds[0].path, size=adds[0].size - 1)
    with pytest.raises(CorruptDataError, match="bytes on the store"):
        require_sizes([wrong], filled.store)
    with pytest.raises(CorruptDataError, match="are gone"):
        require_sizes([an_add("day=a/none.parquet")], filled.store)


def _write_in_every_way(catalog, location):
    options = {"schema": rows(1).schema, "partition_by": ["day"]}
    table = catalog.create_table("orders", location=location, **options)
    table.append(rows(*range(100), day="a"))
    table.append(rows(*range(100), day="b"))
    table.overwrite(rows(1, 2, day="b"), where="day = 'b'")
    table.append(rows(3, day="a"))
    with catalog.transaction() as tx:
        tx.table("orders").append(rows(4, day="c"))
    table.compact(where="day = 'a'")
    recorded = sizes(table)
    assert len(recorded) == 3
    assert recorded == stored(table)
    assert catalog.mirror.verify("orders", data_files=True) == []


def test_every_write_records_what_the_store_says(catalog, tmp_path):
    _write_in_every_way(catalog, str(tmp_path / "orders"))


def test_every_write_records_what_an_object_store_says(tmp_path, s3_server, fresh_name):
    options = servers.s3_options(s3_server.endpoint)
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    with deltasql.connect(uri, storage_options=options) as catalog:
        _write_in_every_way(catalog, f"s3://{servers.BUCKET}/{fresh_name}")


def test_a_wrong_size_is_put_right_by_a_new_add(catalog, filled):
    key = min(sizes(filled))
    with place_of(filled, key).open("ab") as file:
        file.write(b"x")
    live = filled.snapshot().files(["path", "size", "stats"]).to_pylist()
    (row,) = [row for row in live if resolve_path(row["path"]).key == key]
    assert verify(catalog) == [(Difference.WRONG_DATA_SIZE, key)]
    filled.commit([an_add(row["path"], size=row["size"] + 1, stats=row["stats"])])
    assert verify(catalog) == []
