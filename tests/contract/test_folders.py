"""Folders, one level at a time, on every object store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from deltasql.errors import BadArgumentError, UnsafePathError
from deltasql.imports.lake import find_logs
from deltasql.protocol.log_names import commit_name
from deltasql.storage.port import ObjectStore

ODD = ["with space", "per%cent", "a%20b", "hash#tag", "é", "日本", "k=%2F", "..x", ".hidden", "a+b"]


def test_folders_are_told_level_by_level(store: ObjectStore) -> None:
    for key in ("a/b/c/d", "a/b/x", "a/e/y", "a/z", "b", "ab/c", "a-/c", "A/c"):
        store.put(key, b"x")
    assert store.folders() == ("A/", "a-/", "a/", "ab/")
    assert store.folders("a/") == ("a/b/", "a/e/")
    assert store.folders("a/b/") == ("a/b/c/",)
    assert store.folders("a/b/c/") == ()


def test_a_place_without_objects_has_no_folders(store: ObjectStore) -> None:
    assert store.folders() == ()
    assert store.folders("missing/") == ()
    store.put("file", b"x")
    assert store.folders("file/") == ()


def test_odd_names_come_back_as_they_are(store: ObjectStore) -> None:
    for name in ODD:
        store.put(f"odd/{name}/x", b"x")
    wanted = sorted((f"odd/{name}/" for name in ODD), key=str.encode)
    assert list(store.folders("odd/")) == wanted
    assert [info.key for folder in wanted for info in store.list_from(folder)] == [
        f"{folder}x" for folder in wanted
    ]


@pytest.mark.parametrize("prefix", ["/", "../", "a/../", "a//", "./", "nul\0/"])
def test_a_hostile_folder_is_refused(store: ObjectStore, prefix: str) -> None:
    with pytest.raises(UnsafePathError):
        store.folders(prefix)


def test_half_a_name_is_no_folder(store: ObjectStore) -> None:
    with pytest.raises(BadArgumentError):
        store.folders("a")


def test_more_folders_than_a_page_are_all_told(store: ObjectStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: store.put(f"many/{number:04d}/x", b"x"), range(1_100)))
    assert len(store.folders("many/")) == 1_100


def test_the_tables_of_a_lake_are_found(store: ObjectStore) -> None:
    for table in ("sales/orders", "sales/orders/nested", "x y/é", "top"):
        store.put(f"{table}/_delta_log/{commit_name(0)}", b"{}")
    store.put("sales/orders/day=1/part-0.parquet", b"x")
    store.put("raw/part-0.parquet", b"x")
    found = [one.folder for one in find_logs(store) if one.has_version]
    assert found == ["top", "sales/orders", "x y/é", "sales/orders/nested"]
