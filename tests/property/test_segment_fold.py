"""Files that come from the newest window to the oldest end as a plain replay says."""

import random

import pyarrow as pa
import pytest

from builders import a_remove, an_add
from deltasql.imports.load.window import AN_ADD, Keys, LaterActions, SegmentFold, keys_of
from deltasql.imports.plan.commit_files import CommitFile
from deltasql.imports.read.parse import WindowReader
from deltasql.protocol.actions import hash_key
from deltasql.protocol.codec import serialize_actions

NAMES = ("path", "added_version", "removed_version", "removal")
PATHS = [f"f{number}" for number in range(7)]


def a_log(chance: random.Random, versions: int) -> list[list[tuple[str, str]]]:
    """Per version: words on some files, in no sensible order."""
    return [
        [(chance.choice(("add", "remove")), path) for path in chance.sample(PATHS, 3)]
        for _ in range(versions)
    ]


def naive(log, first: int):
    """Intervals and tombstones by a replay: (path, added or None, removed or None, how)."""
    live, done = {}, []
    for version, words in enumerate(log, first):
        for word, path in sorted(words, key=lambda one: one[0] != "remove"):
            begun = live.pop(path, None)
            if word == "remove":
                done.append((path, begun, version, "remove"))
            elif begun is not None:
                done.append((path, begun, version, "replaced"))
            if word == "add":
                live[path] = version
    return sorted([*done, *((path, begun, None, None) for path, begun in live.items())], key=repr)


def windows_of(log, first: int, cuts: list[int]):
    for start, end in zip([0, *cuts], [*cuts, len(log)], strict=True):
        reader = WindowReader("log")
        for version in range(first + start, first + end):
            reader.take(CommitFile(version, 1, 1), payload(log[version - first]))
        yield reader.window()


def payload(words) -> bytes:
    adds = [an_add(path) for word, path in words if word == "add"]
    removes = [an_add(path) for word, path in words if word == "remove"]
    return serialize_actions([*adds, *(a_remove(add, deletion_timestamp=5) for add in removes)])


@pytest.mark.parametrize("seed", range(60))
def test_ends_are_those_of_a_replay(seed):
    chance = random.Random(seed)
    versions = chance.randint(2, 12)
    log = a_log(chance, versions)
    cuts = sorted(chance.sample(range(1, versions), chance.randint(0, min(4, versions - 1))))
    fold, found = SegmentFold(), []
    for window in reversed(list(windows_of(log, 3, cuts))):
        placed = fold.take(window)
        for table in (placed.live, placed.removed):
            found += [tuple(row.get(name) for name in NAMES) for row in table.to_pylist()]
    older = fold.older()
    for table in (older.removes, older.tombstones):
        found += [
            (row["path"], None, row["removed_version"], "remove") for row in table.to_pylist()
        ]
    assert sorted(found, key=repr) == naive(log, 3), (seed, log, cuts)
    first = first_words(log, 3)
    removes = {row["path"]: row["removed_version"] for row in older.removes.to_pylist()}
    assert removes == {path: v for path, (word, v) in first.items() if word == "remove"}
    adds = {row["file_key"]: row["version"] for row in older.adds.to_pylist()}
    expected = {hash_key(path, ""): v for path, (word, v) in first.items() if word == "add"}
    assert adds == expected


def first_words(log, first: int):
    found = {}
    for version, words in enumerate(log, first):
        for word, path in words:
            found.setdefault(path, (word, version))
    return found


def test_keys_that_begin_alike_are_told_apart():
    def key(last: int) -> bytes:
        return b"\x01" * 8 + last.to_bytes(8, "big")

    words = LaterActions()
    for last in (5, 3, 9):
        keys = keys_of(pa.chunked_array([pa.array([key(last)], pa.binary(16))]))
        words.put(keys, pa.array([last]).to_numpy().copy(), pa.array([AN_ADD]).to_numpy().copy())
    asked = [key(number) for number in (9, 4, 3, 5)]
    places = words.find(keys_of(pa.chunked_array([pa.array(asked, pa.binary(16))])))
    assert [int(words.versions[p]) if p >= 0 else None for p in places] == [9, None, 3, 5]
    assert isinstance(words.keys, Keys)
    assert words.keys.column().to_pylist().count(key(3)) == 1
