"""One spelling for each place."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltasql.errors import BadUriError
from deltasql.storage.local import LocalStore
from deltasql.storage.location import parse_location
from deltasql.storage.memory import MemoryStore
from deltasql.storage.port import ObjectStore
from deltasql.storage.resolve import canonical_location, location_key, open_store


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/lake/orders", "file:///lake/orders"),
        ("/lake//orders/", "file:///lake/orders"),
        ("//lake/./orders", "file:///lake/orders"),
        ("file:/lake/orders", "file:///lake/orders"),
        ("file:///lake/orders/", "file:///lake/orders"),
        ("FILE://localhost/lake/orders", "file:///lake/orders"),
        ("file:///lake/a%20b", "file:///lake/a%20b"),
        ("file:///lake/a b", "file:///lake/a%20b"),
        ("/lake/a b", "file:///lake/a%20b"),
        ("/lake/a%20b", "file:///lake/a%2520b"),
        ("/lake/what?#", "file:///lake/what%3F%23"),
        ("/lake/é", "file:///lake/%C3%A9"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3a://bucket/t/", "s3://bucket/t"),
        ("S3N://bucket/a/t", "s3://bucket/a/t"),
        ("s3://bucket/a/../t/./x", "s3://bucket/t/x"),
        ("s3://bucket/a/%2e%2e/t", "s3://bucket/t"),
        ("s3://bucket/a b/%C3%A9", "s3://bucket/a%20b/%C3%A9"),
        ("s3://bucket/day=1", "s3://bucket/day=1"),
        ("gs://bucket/t", "gs://bucket/t"),
        ("az://container/t", "az://container/t"),
        (
            "abfs://c@account.dfs.core.windows.net/t",
            "abfss://c@account.dfs.core.windows.net/t",
        ),
        (
            "abfss://c@ACCOUNT.blob.core.windows.net/t/",
            "abfss://c@account.dfs.core.windows.net/t",
        ),
        ("memory:", "memory://"),
        ("memory:///t", "memory:///t"),
        ("memory://lake/t/", "memory://lake/t"),
    ],
)
def test_spellings_of_a_place_are_one(location: str, expected: str) -> None:
    assert canonical_location(location) == expected
    assert canonical_location(expected) == expected
    assert parse_location(expected) == parse_location(location)


@pytest.mark.parametrize(
    "location",
    [
        "",
        "ftp://host/x",
        "hdfs://host/x",
        "https://host/x",
        "file://host/x",
        "file:relative",
        "s3:bucket/x",
        "s3:///x",
        "s3://bucket/../x",
        "s3://bucket/a/%2e%2e/%2e%2e/x",
        "s3://bucket/canary//x",
        "s3://bucket/canary%2f/x",
        "s3://bucket//canary",
        "s3://bucket/canary//",
        "gs://bucket/canary//x",
        "az://bucket/canary//x",
        "abfss://c@account.dfs.core.windows.net/canary//x",
        "s3://bucket/x?versionId=canary",
        "s3://bucket/x#canary",
        "s3://canary:canary@bucket/x",
        "s3://bucket:99/x",
        "abfss://container/x",
        "abfss://a:canary@b@host/x",
        "az://container/x?sig=canary",
        "memory:x",
        "/a\0b",
        "s3://bucket/%00",
        "s3://bucket/%ff",
        "/\ud800",
    ],
)
def test_what_is_no_location_is_refused_without_repeating_it(location: str) -> None:
    with pytest.raises(BadUriError) as failure:
        canonical_location(location)
    assert "canary" not in str(failure.value)
    assert "deltasql://" not in failure.value.advice


def test_relative_paths_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert canonical_location("lake/orders") == f"file://{tmp_path}/lake/orders"
    assert canonical_location("./lake/../orders") == f"file://{tmp_path}/orders"


def test_the_key_resolves_links_as_the_system_does(tmp_path: Path) -> None:
    (tmp_path / "real/deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real/deep")
    real = location_key(str(tmp_path / "real/deep"))
    assert location_key(str(tmp_path / "link")) == real
    assert location_key(f"file:{tmp_path}/link/") == real
    assert location_key(f"{tmp_path}/link/../deep") == real
    assert location_key(f"{tmp_path}/real/x/../deep") == real
    # not there yet: still one spelling
    assert location_key(f"{tmp_path}/link/new/") == f"{real}/new"
    assert location_key("s3a://b/t/") == location_key("s3://b/t")


def test_a_place_holds_what_is_below_it_by_whole_segments() -> None:
    lake = parse_location("s3://bucket/lake/orders")
    assert lake.holds(parse_location("s3a://bucket/lake/orders/part"))
    assert lake.holds(lake)
    assert not lake.holds(parse_location("s3://bucket/lake/orders2"))
    assert not lake.holds(parse_location("s3://bucket/lake"))
    assert not lake.holds(parse_location("s3://bucket2/lake/orders"))
    assert not lake.holds(parse_location("gs://bucket/lake/orders"))
    assert parse_location("/").holds(parse_location("/x"))


def test_an_azure_container_is_one_place_in_both_spellings() -> None:
    short = parse_location("az://c/lake")
    long = parse_location("abfss://c@account.dfs.core.windows.net/lake")
    elsewhere = parse_location("abfss://c@other.dfs.core.windows.net/lake")
    for above, below in [(short, long), (long, short), (short, elsewhere), (elsewhere, short)]:
        assert above.holds(below)
        inner = parse_location(f"{below.uri}/orders")
        assert above.holds(inner)
        assert not inner.holds(above)
    assert not long.holds(elsewhere)
    assert not short.holds(parse_location("abfss://d@account.dfs.core.windows.net/lake"))
    assert not short.holds(parse_location("s3://c/lake"))


def test_stores_are_opened_by_scheme(tmp_path: Path) -> None:
    for location in (str(tmp_path), f"file://{tmp_path}", f"file:{tmp_path}"):
        store = open_store(location)
        assert isinstance(store, LocalStore)
        assert store.uri == f"file://{tmp_path}"
    assert isinstance(open_store("memory://x/y"), MemoryStore)
    assert isinstance(open_store(str(tmp_path)), ObjectStore)


def test_encoded_and_plain_locations_reach_the_same_files(tmp_path: Path) -> None:
    open_store(str(tmp_path / "a b")).put("k", b"1")
    assert open_store(f"file://{tmp_path}/a%20b").get("k") == b"1"
    assert (tmp_path / "a b" / "k").exists()


def test_memory_locations_are_shared_within_the_process() -> None:
    open_store("memory://shared/lake/orders").put("k", b"1")
    assert open_store("memory://shared/lake/orders/").get("k") == b"1"
    assert open_store("memory://shared/lake").get("orders/k") == b"1"
    assert [i.key for i in open_store("memory://shared").list_from("")] == ["lake/orders/k"]
    assert list(open_store("memory://shared/lake/order").list_from("")) == []
    assert list(open_store("memory://other/lake/orders").list_from("")) == []
