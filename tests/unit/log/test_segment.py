"""What a listing is made of: strangers out, the right checkpoint, no gap."""

import pytest

from deltasql.errors import LogGapError, ObjectNotFoundError
from deltasql.log.commits import (
    build_segment,
    incomplete_checkpoints,
    read_segment,
    usable_checkpoints,
)
from deltasql.protocol.log_names import LogFile, commit_key, commit_name
from deltasql.storage.memory import MemoryStore

UUIDS = [f"80a083e8-7026-4e79-81be-64bd76c43a{n:02d}" for n in range(2)]


def classic(version: int) -> str:
    return f"{version:020d}.checkpoint.parquet"


def multipart(version: int, part: int, parts: int) -> str:
    return f"{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"


def v2(version: int, number: int = 0) -> str:
    return f"{version:020d}.checkpoint.{UUIDS[number]}.json"


def commits(*versions: int) -> list[str]:
    return [commit_name(version) for version in versions]


def segment(*names: str):
    return build_segment([LogFile.parse(name) for name in names], "memory://t")


def test_commits_come_in_version_order():
    found = segment(*commits(2, 0, 1))
    assert [file.version for file in found.commits] == [0, 1, 2]
    assert found.checkpoint == ()
    assert found.version == 2


def test_commits_up_to_the_checkpoint_are_left_out():
    found = segment(*commits(*range(13)), classic(10))
    assert [file.version for file in found.commits] == [11, 12]
    assert [file.name for file in found.checkpoint] == [classic(10)]


def test_a_checkpoint_alone_is_a_table():
    assert segment(classic(10)).version == 10


def test_the_newest_checkpoint_wins():
    assert segment(classic(10), classic(20), *commits(20, 21)).checkpoint[0].version == 20


@pytest.mark.parametrize(
    ("names", "winner"),
    [
        ([classic(9), multipart(9, 1, 1)], [multipart(9, 1, 1)]),
        (
            [multipart(9, 1, 1), multipart(9, 1, 2), multipart(9, 2, 2)],
            [multipart(9, 1, 2), multipart(9, 2, 2)],
        ),
        ([multipart(9, 1, 1), v2(9), classic(9)], [v2(9)]),
        ([v2(9, 0), v2(9, 1)], [v2(9, 1)]),
        ([multipart(9, 2, 2), classic(9)], [classic(9)]),
        ([multipart(9, 1, 3), multipart(9, 3, 3), classic(5), *commits(6, 7, 8, 9)], [classic(5)]),
        ([multipart(9, 0, 0), multipart(9, 3, 2), classic(9)], [classic(9)]),
    ],
)
def test_which_checkpoint_of_several_counts(names, winner):
    assert [file.name for file in segment(*names).checkpoint] == winner


def test_a_count_of_parts_is_compared_and_never_counted_up_to():
    names = [multipart(9, 1, 9_999_999_999), multipart(9, 1, 1)]
    files = [LogFile.parse(name) for name in names]
    assert [[one.name for one in parts] for parts in usable_checkpoints(files)] == [names[1:]]
    assert [[one.name for one in parts] for parts in incomplete_checkpoints(files)] == [names[:1]]


@pytest.mark.req("R75")
@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (commits(0, 2), 1),
        (commits(1, 2), 0),
        ([classic(10), *commits(12)], 11),
        ([multipart(10, 1, 2), *commits(11)], 0),
    ],
)
def test_a_gap_is_refused_and_named(names, missing):
    with pytest.raises(LogGapError, match=f"Version {missing} is missing") as error:
        segment(*names)
    assert error.value.context["missing"] == missing


def test_no_log_is_no_table():
    with pytest.raises(ObjectNotFoundError, match="memory://t"):
        segment()
    with pytest.raises(ObjectNotFoundError):
        read_segment(MemoryStore("memory://t"))


def test_strangers_in_the_folder_are_passed_over():
    store = MemoryStore()
    for name in (
        *commits(0, 1),
        "_last_checkpoint",
        "_deltasql",
        "0000000002.json",
        "000000000000000002.json",
        "99999999999999999999.json",
        f".{2:020d}.json.tmp",
        f"{1:020d}.crc",
        f"{0:020d}.{1:020d}.compacted.json",
        f"_staged_commits/{2:020d}.{UUIDS[0]}.json",
        f"_sidecars/{2:020d}.json",
    ):
        store.put(f"_delta_log/{name}", b"{}")
    assert [file.version for file in read_segment(store).commits] == [0, 1]


def test_an_empty_checkpoint_is_none_but_an_empty_commit_is_one():
    store = MemoryStore()
    for name in commits(0, 1):
        store.put(f"_delta_log/{name}", b"{}")
    store.put(f"_delta_log/{classic(1)}", b"")
    store.put(commit_key(2), b"")
    found = read_segment(store)
    assert found.checkpoint == ()
    assert found.version == 2
