"""Every table of a lake is found, and its data files are never listed."""

import pytest

from deltasql.errors import AccessDeniedError
from deltasql.imports.lake import find_logs
from deltasql.protocol.log_names import commit_name
from deltasql.storage.local import LocalStore
from deltasql.storage.memory import MemoryStore
from deltasql.testing.faulty_store import Fault, FaultyStore, Kind
from log_listings import classic, v2


def find_tables(store):
    return (found.folder for found in find_logs(store) if found.has_version)


def a_lake(*keys: str) -> MemoryStore:
    store = MemoryStore("memory://lake")
    for key in keys:
        store.put(key, b"{}")
    return store


def log_of(table: str, name: str = commit_name(0)) -> str:
    return f"{table}/_delta_log/{name}" if table else f"_delta_log/{name}"


def test_tables_are_found_at_every_depth():
    store = a_lake(log_of("a"), log_of("b/c"), log_of("b/d/e"), "f/x.parquet", "g.txt")
    assert list(find_tables(store)) == ["a", "b/c", "b/d/e"]


def test_the_root_may_be_a_table_itself():
    assert list(find_tables(a_lake(log_of("")))) == [""]


def test_a_table_inside_of_a_table_is_found():
    store = a_lake(log_of(""), log_of("inner"), log_of("inner/deeper"))
    assert list(find_tables(store)) == ["", "inner", "inner/deeper"]


def test_folders_like_partitions_are_entered_where_no_table_is():
    store = a_lake(log_of("year=2024/t"), log_of("_raw/t"), log_of(".old/t"))
    assert list(find_tables(store)) == [".old/t", "_raw/t", "year=2024/t"]


@pytest.mark.parametrize("name", [classic(10), v2(10)])
def test_a_checkpoint_makes_a_table(name):
    assert list(find_tables(a_lake(log_of("t", name)))) == ["t"]


@pytest.mark.parametrize("name", ["_last_checkpoint", f"{0:020d}.crc", "x.txt", "0.json"])
def test_a_log_folder_without_a_version_makes_none(name):
    assert list(find_tables(a_lake(log_of("t", name)))) == []


def test_what_a_table_holds_is_not_looked_at():
    data = [f"t/p={number}/part-0.parquet" for number in range(50)]
    store = FaultyStore(a_lake(log_of("t"), *data, "t/_change_data/p=1/x.parquet"))
    assert list(find_tables(store)) == ["t"]
    assert sorted((call.operation, call.key) for call in store.calls) == [
        ("folders", ""),
        ("folders", "t/"),
        ("list_from", "t/_delta_log/"),
    ]


def test_a_folder_that_cannot_be_listed_is_not_passed_over():
    store = FaultyStore(
        a_lake(log_of("a"), log_of("b")), [Fault(Kind.DENIED, operation="folders", key="b/")]
    )
    with pytest.raises(AccessDeniedError):
        list(find_tables(store))


def test_a_local_lake_is_walked_without_its_links(tmp_path):
    for key in (log_of("a"), log_of("x y/é")):
        (tmp_path / key).parent.mkdir(parents=True)
        (tmp_path / key).touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "empty").mkdir()
    assert list(find_tables(LocalStore(str(tmp_path)))) == ["a", "x y/é"]


def test_nothing_is_a_lake_without_tables(tmp_path):
    assert list(find_tables(LocalStore(str(tmp_path / "missing")))) == []
