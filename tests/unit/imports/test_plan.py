"""What an import reads of a log: all that is retained, on the right ground, up to the right end."""

import pickle

import pytest

from deltasql.errors import BadArgumentError, LogGapError
from deltasql.imports.plan.commit_files import VersionRange
from deltasql.imports.plan.import_plan import PlanOptions
from deltasql.protocol.log_names import LogFileKind
from log_listings import classic, codes, commits, multipart, planned, span, v2, versions


@pytest.mark.req("R60")
@pytest.mark.req("R61")
def test_all_commits_from_zero_are_the_history_whatever_the_checkpoints():
    plan = planned([*span(0, 25), classic(10), classic(20)])
    assert versions(plan) == list(range(26))
    assert (plan.first, plan.head) == (0, 25)
    assert plan.base is None
    assert plan.base_parts == plan.candidates == plan.left_out == ()
    assert [checkpoint.version for checkpoint in plan.checkpoints] == [10, 20]


@pytest.mark.parametrize(
    ("names", "first", "have", "left_out"),
    [
        # the commit of the checkpoint is there, and so is all that follows
        ([*span(10, 13), classic(10)], 10, [10, 11, 12, 13], []),
        # the checkpoint stands just before the oldest commit
        ([*span(11, 13), classic(10)], 10, [11, 12, 13], []),
        # commits before the oldest checkpoint stand on nothing
        ([*span(7, 13), classic(10)], 10, [10, 11, 12, 13], [(7, 9)]),
        # of several, the oldest gives the longest history
        ([*span(9, 31), classic(10), classic(20), classic(30)], 10, list(range(10, 32)), [(9, 9)]),
        # a checkpoint older than all commits leads nowhere
        ([*span(9, 12), classic(5), classic(10)], 10, [10, 11, 12], [(9, 9)]),
        # no commit at all
        ([classic(10)], 10, [], []),
        ([classic(5), classic(10)], 10, [], []),
        # a hole that lies before everything that can be told
        ([*span(3, 4), *span(7, 12), classic(10)], 10, [10, 11, 12], [(3, 4), (7, 9)]),
        # the newest state is known by a checkpoint only, and nothing older can be told
        ([*span(5, 10), classic(12)], 12, [], [(5, 10)]),
        ([*span(10, 12), multipart(10, 1, 2), multipart(10, 2, 2)], 10, [10, 11, 12], []),
        ([*span(10, 12), v2(10)], 10, [10, 11, 12], []),
        # version 0 as a checkpoint only
        ([*span(1, 3), classic(0)], 0, [1, 2, 3], []),
    ],
)
def test_a_log_without_its_beginning_stands_on_a_checkpoint(names, first, have, left_out):
    plan = planned(names)
    assert plan.first == plan.base_version == first
    assert versions(plan) == have
    assert [(one.first, one.last) for one in plan.left_out] == left_out
    assert plan.head == max([first, *have])


def test_versions_that_stand_on_nothing_are_named():
    plan = planned([*span(7, 13), classic(10)])
    (warning,) = [one for one in plan.warnings if one.code == "unreachable-versions"]
    assert warning.message.startswith("Versions 7 to 9 are not imported")
    assert warning.count == 3
    assert "no-commit-file" not in codes(plan)
    assert "no-commit-file" in codes(planned([classic(10), *span(11, 12)]))
    assert "orphan-checkpoint" in codes(planned([*span(9, 12), classic(5), classic(10)]))


@pytest.mark.parametrize(
    ("names", "kind", "parts"),
    [
        ([classic(10), multipart(10, 1, 2), multipart(10, 2, 2)], LogFileKind.MULTIPART, 2),
        ([multipart(10, 1, 1), multipart(10, 1, 2), multipart(10, 2, 2)], LogFileKind.MULTIPART, 2),
        ([classic(10), multipart(10, 1, 1), v2(10)], LogFileKind.V2, 1),
        ([classic(10), multipart(10, 2, 2)], LogFileKind.CHECKPOINT, 1),
    ],
)
def test_of_one_version_the_checkpoint_that_readers_prefer_is_taken(names, kind, parts):
    plan = planned([*names, *span(10, 12)])
    assert plan.base.kind is kind
    assert len(plan.base_parts) == parts
    others = {one.kind for one in plan.candidates}
    assert plan.base not in plan.candidates
    assert len(others | {kind}) == len({one.kind for one in plan.checkpoints})


@pytest.mark.req("R70")
def test_checkpoint_only_takes_the_newest_checkpoint_and_what_follows():
    plan = planned([*span(0, 25), classic(10), classic(20)], checkpoint_only=True)
    assert (plan.first, plan.head, plan.base_version) == (20, 25, 20)
    assert versions(plan) == list(range(20, 26))
    assert plan.left_out == (VersionRange(0, 19),)
    assert "history-skipped" in codes(plan)
    # then an older checkpoint, then version 0
    assert [one and one.version for one in plan.candidates] == [10, None]


def test_checkpoint_only_without_a_checkpoint_is_the_whole_history():
    plan = planned(span(0, 3), checkpoint_only=True)
    assert versions(plan) == [0, 1, 2, 3]
    assert "no-checkpoint" in codes(plan)


def test_checkpoint_only_passes_a_hole_in_what_it_leaves_out():
    plan = planned([*span(0, 6), *span(8, 13), classic(10)], checkpoint_only=True)
    assert (plan.first, plan.left_out) == (10, (VersionRange(0, 6), VersionRange(8, 9)))


@pytest.mark.req("R67")
@pytest.mark.parametrize(
    ("names", "up_to", "first", "head"),
    [
        (span(0, 9), 4, 0, 4),
        (span(0, 9), 0, 0, 0),
        (span(0, 9), 9, 0, 9),
        ([*span(10, 30), classic(10), classic(20)], 15, 10, 15),
        ([*span(10, 30), classic(10), classic(20)], 10, 10, 10),
        # a hole after the end does not matter
        ([*span(0, 6), *span(8, 9)], 6, 0, 6),
        ([*span(0, 9), classic(12)], 9, 0, 9),
    ],
)
def test_an_import_ends_where_it_is_told_to(names, up_to, first, head):
    plan = planned(names, up_to_version=up_to)
    assert (plan.first, plan.head) == (first, head)
    assert plan.left_out == ()
    assert all(checkpoint.version <= head for checkpoint in plan.checkpoints)


def test_an_end_above_the_head_is_the_head():
    plan = planned(span(0, 3), up_to_version=9)
    assert plan.head == 3
    assert "up-to-above-head" in codes(plan)
    assert "up-to-above-head" not in codes(planned(span(0, 3), up_to_version=3))


def test_versions_do_not_count_below_zero():
    with pytest.raises(BadArgumentError, match="no version -1"):
        planned(span(0, 3), up_to_version=-1)


def test_checkpoint_only_ends_where_it_is_told_to():
    names = [*span(0, 25), classic(10), classic(20)]
    plan = planned(names, checkpoint_only=True, up_to_version=15)
    assert (plan.first, plan.head) == (10, 15)


@pytest.mark.req("R74")
def test_a_corrupt_ground_gives_way_to_the_next():
    names = [*span(9, 31), classic(10), v2(10), classic(20), classic(30)]
    plan = planned(names)
    tried = []
    for _ in range(4):
        tried.append((plan.base_version, plan.base.kind, len(plan.commits)))
        if plan.base_version == 30:
            break
        plan = plan.without_base("its footer is torn")
        assert "corrupt-checkpoint" in codes(plan)
    assert tried == [
        (10, LogFileKind.V2, 22),
        (10, LogFileKind.CHECKPOINT, 22),
        (20, LogFileKind.CHECKPOINT, 12),
        (30, LogFileKind.CHECKPOINT, 2),
    ]
    with pytest.raises(LogGapError, match="begins at version 9 and has no usable checkpoint"):
        plan.without_base("torn")


@pytest.mark.req("R74")
def test_checkpoint_only_falls_back_to_older_checkpoints_and_then_to_all_commits():
    plan = planned([*span(0, 25), classic(10), classic(20)], checkpoint_only=True)
    older = plan.without_base("torn")
    assert (older.first, versions(older)) == (10, list(range(10, 26)))
    whole = older.without_base("torn")
    assert (whole.first, whole.base) == (0, None)
    assert sum(one.code == "corrupt-checkpoint" for one in whole.warnings) == 2
    with pytest.raises(BadArgumentError):
        whole.without_base("torn")


def test_a_head_that_only_a_corrupt_checkpoint_knows_is_never_quietly_lowered():
    with pytest.raises(LogGapError, match="Version 10"):
        planned([classic(10)]).without_base("torn")
    plan = planned([*span(5, 10), classic(12), classic(6)], checkpoint_only=True)
    with pytest.raises(LogGapError, match="Version 11 is missing"):
        plan.without_base("torn")


def test_a_plan_travels_between_processes():
    plan = planned([*span(9, 31), classic(10)], up_to_version=30)
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert plan.options == PlanOptions(up_to_version=30)


def test_sizes_are_told_of_what_will_be_read():
    plan = planned([*span(9, 12), classic(10), "_sidecars/a.parquet", "_sidecars/b.parquet"])
    assert (plan.commits.bytes, plan.base_bytes) == (300, 100)
    shared = planned([*commits(11), v2(10), "_sidecars/a.parquet", "_sidecars/b.parquet"])
    assert shared.base_bytes == 300
