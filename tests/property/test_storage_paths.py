"""Laws of keys and paths, for any text."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import unquote

from hypothesis import example, given
from hypothesis import strategies as st

from deltasql.errors import UnsafePathError
from deltasql.storage.location import canonical_location, parse_location
from deltasql.storage.paths import (
    AbsoluteObject,
    RelativeKey,
    check_key,
    encode_path,
    hive_escape,
    resolve_path,
)

_TEXT = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1)
_SEGMENTS = _TEXT.filter(lambda text: text not in {".", ".."})
KEYS = st.lists(_SEGMENTS, min_size=1, max_size=4).map("/".join)
HOSTILE = st.lists(
    st.sampled_from(
        [
            "..",
            ".",
            "/",
            "//",
            "%2e",
            "%2E",
            "%2f",
            "%5c",
            "%00",
            "%25",
            "a",
            "orders",
            "orders2",
            "file:",
            "s3:",
            "file://",
            "s3://b",
            "/lake/orders",
            "\\",
            "?",
            "#",
            "é",
            "%ff",
            ":",
        ]
    ),
    max_size=8,
).map("".join)


@given(KEYS)
@example("a:b")
@example("a%3Ab:c/d:e")
@example("file:x")
@example("%")
@example("a?b#c")
def test_a_written_path_reads_as_the_same_key(key: str) -> None:
    encoded = encode_path(key)
    assert resolve_path(encoded) == RelativeKey(key)
    assert unquote(encoded) == key
    assert encoded.isascii()


@given(HOSTILE | st.text())
def test_a_path_is_refused_or_stays_below_its_root(path: str) -> None:
    try:
        found = resolve_path(path, allowed_roots=["/lake/orders"])
    except UnsafePathError:
        return
    if isinstance(found, AbsoluteObject):
        assert found.root == "/lake/orders"
    parts = PurePosixPath("/lake/table", found.key).parts
    assert parts[:3] == ("/", "lake", "table")
    assert len(parts) > 3
    assert ".." not in parts
    assert check_key(found.key) == found.key


@given(KEYS)
def test_any_key_can_be_part_of_a_location(key: str) -> None:
    for location in (f"/lake/{key}", f"s3://bucket/{encode_path(key)}"):
        canonical = canonical_location(location)
        assert canonical_location(canonical) == canonical
        assert parse_location(canonical).path.removeprefix("/lake/") == key


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_hive_name_is_one_segment_and_decodes_to_its_value(value: str) -> None:
    escaped = hive_escape(value)
    assert "/" not in escaped
    assert unquote(escaped) == value
    assert check_key(f"p={escaped}")
