"""Paths of a log: decoded once, and never outside the table."""

from __future__ import annotations

import pytest

from deltasql.errors import UnsafePathError
from deltasql.storage.paths import (
    AbsoluteObject,
    RelativeKey,
    encode_path,
    hive_escape,
    resolve_path,
)


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("part-0.parquet", "part-0.parquet"),
        ("p=a%20b/x", "p=a b/x"),
        ("p=a b/x", "p=a b/x"),
        ("p=a%2520b/x", "p=a%20b/x"),
        ("p=x%252Fy%2525/x", "p=x%2Fy%25/x"),
        ("p=é/x", "p=é/x"),
        ("p=%C3%A9/x", "p=é/x"),
        ("ts=2024-01-01%2010%253A00%253A00/x", "ts=2024-01-01 10%3A00%3A00/x"),
        ("ts=10:00/x", "ts=10:00/x"),
        ("100%", "100%"),
        ("a%2Fb", "a/b"),
        ("...", "..."),
        ("..x/x", "..x/x"),
        ("%252e%252e/x", "%2e%2e/x"),
        ("what?x#y", "what?x#y"),
    ],
)
def test_relative_paths_are_decoded_once(path: str, key: str) -> None:
    assert resolve_path(path) == RelativeKey(key)


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "..",
        "../x",
        "a/../../x",
        "a/..",
        "%2e%2e/x",
        "%2E%2E%2Fx",
        "..%2Fx",
        "a/%2e%2e/%2e%2e/x",
        "a//b",
        "%2Fetc/passwd",
        "a/",
        "a%00b",
        "a\0b",
        "%ff",
        "/etc/passwd",
        "//host/x",
        "file:/etc/passwd",
        "file:///etc/passwd",
        "s3://bucket/x",
        "https://host/x",
        "javascript:x",
        "C:/x",
        "\ud800",
    ],
)
@pytest.mark.parametrize("roots", [(), ("/lake/orders",), ("s3://lake/orders",)])
def test_hostile_paths_are_refused(path: str, roots: tuple[str, ...]) -> None:
    with pytest.raises(UnsafePathError):
        resolve_path(path, allowed_roots=roots)


@pytest.mark.parametrize(
    ("path", "root", "key"),
    [
        ("/lake/orders/p=a%20b/x", "/lake/orders", "p=a b/x"),
        ("file:/lake/orders/x", "/lake/orders", "x"),
        ("file:///lake/orders/x", "file:///lake/orders/", "x"),
        ("s3a://b/orders/x", "s3://b/orders", "x"),
        ("s3://b/orders/p%252F/x", "s3a://b/orders/", "p%2F/x"),
        ("s3://b/x", "s3://b", "x"),
        ("gs://b/orders/x", "gs://b/orders", "x"),
    ],
)
def test_absolute_paths_need_an_allowed_root(path: str, root: str, key: str) -> None:
    assert resolve_path(path, allowed_roots=["s3://else", root]) == AbsoluteObject(root, key)
    with pytest.raises(UnsafePathError):
        resolve_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "/lake/orders2/x",
        "/lake/orders",
        "/lake/orders/",
        "/lake/orders/../orders2/x",
        "/lake/orders/%2e%2e/orders2/x",
        "/lake/orders/..%2forders2/x",
        "/lake",
        "file://host/lake/orders/x",
        "file:lake/orders/x",
        "s3://lake/orders/x",
        "file:///lake/orders/x?y",
        "//lake/orders/x",
        "/lake/orders%2F../x",
    ],
)
def test_an_allowed_root_allows_no_more_than_itself(path: str) -> None:
    with pytest.raises(UnsafePathError):
        resolve_path(path, allowed_roots=["/lake/orders"])


def test_what_we_write_is_what_others_read() -> None:
    assert encode_path("p=a b/x") == "p=a%20b/x"
    assert encode_path("p=x%2Fy/x") == "p=x%252Fy/x"
    assert encode_path("a#b?c[d]") == "a%23b%3Fc%5Bd%5D"
    assert encode_path("k=1,2;3/@x+y!$&'()*~:") == "k=1,2;3/@x+y!$&'()*~:"
    # it must not read as a URI
    assert encode_path("a:b/c:d") == "a%3Ab/c:d"


@pytest.mark.parametrize("key", ["", "/x", "../x", "a//b"])
def test_no_hostile_path_is_written(key: str) -> None:
    with pytest.raises(UnsafePathError):
        encode_path(key)


def test_hive_names_are_escaped() -> None:
    assert hive_escape(None) == hive_escape("") == "__HIVE_DEFAULT_PARTITION__"
    assert hive_escape("x/y%") == "x%2Fy%25"
    assert hive_escape("2024-01-01 10:00:00") == "2024-01-01 10%3A00%3A00"
    assert hive_escape("a b-é_日.,+") == "a b-é_日.,+"
    assert hive_escape("\n\x7f\0") == "%0A%7F%00"
    assert hive_escape("\"#'*=?\\{[]^") == "%22%23%27%2A%3D%3F%5C%7B%5B%5D%5E"
    # encoded once more in the log
    assert encode_path(f"p={hive_escape('x/y%')}/f") == "p=x%252Fy%2525/f"
