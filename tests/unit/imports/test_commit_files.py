"""Commit files as columns behave as the sequence of values that they are."""

import pickle
import random

from deltasql.imports.plan.commit_files import CommitFile, CommitFiles, VersionRange


def some(*versions):
    return [CommitFile(version, version * 10, version + 1_000) for version in versions]


def test_they_are_a_sequence():
    files = CommitFiles.of(some(3, 4, 7))
    assert list(files) == some(3, 4, 7)
    assert (len(files), files[-1], files[0].version) == (3, some(7)[0], 3)
    assert list(files[1:]) == some(4, 7)
    assert files.bytes == 140
    assert not CommitFiles.of()


def test_they_sort_themselves_and_a_version_is_there_once():
    mixed = some(*range(50))
    random.Random(5).shuffle(mixed)
    assert list(CommitFiles.of([*mixed, CommitFile(7, 1, 2)])) == [
        CommitFile(7, 1, 2) if one.version == 7 else one for one in some(*range(50))
    ]


def test_a_version_is_found_or_not():
    files = CommitFiles.of(some(3, 4, 7))
    assert files.find(4) == some(4)[0]
    assert [files.find(version) for version in (0, 5, 8, 2**63)] == [None] * 4


def test_a_span_takes_what_is_there():
    files = CommitFiles.of(some(3, 4, 7, 9))
    assert list(files.between(4, 8)) == some(4, 7)
    assert list(files.between(0, 2**70)) == list(files)
    assert list(files.between(5, 4)) == []


def test_runs_end_at_holes():
    assert CommitFiles.of(some(3, 4, 7, 9, 10)).ranges() == (
        VersionRange(3, 4),
        VersionRange(7, 7),
        VersionRange(9, 10),
    )
    assert CommitFiles.of().ranges() == ()


def test_empty_files_are_told_apart():
    files = CommitFiles.of([*some(3), CommitFile(4, 0, 1)])
    assert list(files.filled()) == some(3)


def test_they_travel_between_processes():
    files = CommitFiles.of(some(*range(2_000)))
    assert pickle.loads(pickle.dumps(files)) == files
    assert len(pickle.dumps(files)) < 30 * len(files)
