"""Where an import begins that is to have no version before a given one."""

import pytest

from deltasql.errors import (
    BadArgumentError,
    LogGapError,
    MalformedActionError,
    VersionNotFoundError,
)
from deltasql.imports.plan.commit_files import VersionRange
from deltasql.imports.plan.import_plan import PlanOptions
from deltasql.protocol.log_names import LogFileKind
from log_listings import classic, codes, commits, planned, span, v2, versions

pytestmark = pytest.mark.req("R80")
WHOLE = [*span(0, 30), classic(10), classic(20)]


@pytest.mark.parametrize(
    ("names", "wanted", "first", "base"),
    [
        # no checkpoint: the log is replayed from its beginning
        (span(0, 30), 7, 0, None),
        (WHOLE, 7, 0, None),
        # the nearest checkpoint below, or the one of the version itself
        (WHOLE, 13, 10, 10),
        (WHOLE, 20, 20, 20),
        (WHOLE, 30, 20, 20),
        # a log without its beginning
        ([*span(11, 30), classic(10), classic(20)], 10, 10, 10),
        ([*span(11, 30), classic(10), classic(20)], 19, 10, 10),
        # a hole that lies before the checkpoint does not matter
        ([*span(0, 5), *span(8, 30), classic(10)], 12, 10, 10),
        # version 0 as a checkpoint only
        ([*span(1, 3), classic(0)], 2, 0, 0),
        # the head is a checkpoint's alone
        ([*span(0, 9), classic(12)], 12, 12, 12),
    ],
)
def test_the_nearest_start_at_or_below_the_version_is_taken(names, wanted, first, base):
    plan = planned(names, from_version=wanted)
    assert (plan.first, plan.base_version, plan.oldest) == (first, base, wanted)
    begins = first if plan.commits.find(first) else first + 1
    assert versions(plan) == list(range(begins, plan.head + 1))


def test_versions_that_are_not_kept_are_named():
    plan = planned(WHOLE, from_version=13)
    assert plan.left_out == (VersionRange(0, 12),)
    (note,) = [one for one in plan.warnings if one.code == "history-skipped"]
    assert note.is_note
    assert note.count == 13
    assert note.message == ("Versions 0 to 12 are not imported: the history begins at version 13.")


def test_a_lost_commit_matters_only_where_its_version_is_kept():
    names = [*span(11, 13), classic(10)]
    assert "no-commit-file" in codes(planned(names, from_version=10))
    assert "no-commit-file" not in codes(planned(names, from_version=11))


@pytest.mark.parametrize("names", [WHOLE, [*span(11, 30), classic(10)], span(0, 3)])
def test_from_version_0_is_all_that_the_log_retains(names):
    plain, plan = planned(names), planned(names, from_version=0)
    assert (plan.first, plan.commits, plan.base) == (plain.first, plain.commits, plain.base)
    assert (plan.oldest, plan.left_out, plan.warnings) == (plain.first, (), plain.warnings)


def test_a_version_above_the_head_is_refused():
    with pytest.raises(VersionNotFoundError, match="ends at version 30") as refused:
        planned(WHOLE, from_version=31)
    assert refused.value.context["head"] == 30
    assert planned(WHOLE, from_version=30).head == 30
    with pytest.raises(VersionNotFoundError, match="ends at version 30"):
        planned(WHOLE, from_version=31, up_to_version=40)


@pytest.mark.parametrize("wanted", [1, 9])
def test_a_version_below_all_that_can_be_reconstructed_is_refused(wanted):
    names = [*span(7, 30), classic(10), classic(20)]
    with pytest.raises(VersionNotFoundError, match="begin at is 10") as refused:
        planned(names, from_version=wanted)
    assert refused.value.context["oldest"] == 10
    assert "Versions 10 to 30 can be reconstructed" in refused.value.advice
    lenient = planned(names, from_version=wanted, lenient=True)
    assert (lenient.first, lenient.oldest) == (10, 10)
    assert "unreachable-versions" in codes(lenient)


def test_a_version_in_a_hole_is_refused():
    names = [*span(0, 6), *span(8, 13), classic(10)]
    with pytest.raises(VersionNotFoundError, match="begin at is 10"):
        planned(names, from_version=7)


def test_a_hole_above_the_version_is_refused_as_ever():
    names = [*span(0, 6), *span(8, 13), classic(10)]
    with pytest.raises(LogGapError, match="Version 7 is missing") as refused:
        planned(names, from_version=3)
    assert refused.value.context["missing"] == 7
    assert planned(names, from_version=3, lenient=True).first == 10
    assert planned(names, from_version=3, up_to_version=6).head == 6
    with pytest.raises(MalformedActionError, match="is empty"):
        planned([*span(0, 6), *span(8, 13)], empty=commits(7), from_version=3)
    # nothing leads to the head at all
    with pytest.raises(LogGapError, match="Version 7 is missing"):
        planned([*span(0, 6), *span(8, 13)], from_version=9)


@pytest.mark.req("R74")
def test_a_corrupt_checkpoint_gives_way_to_the_next_below_and_then_to_replay():
    names = [*span(0, 31), classic(10), v2(10), classic(20), classic(30)]
    plan = planned(names, from_version=25)
    tried = [(plan.base_version, plan.base.kind)]
    while plan.base is not None:
        plan = plan.without_base("its footer is torn")
        assert plan.oldest == 25
        tried.append((plan.base_version, plan.base and plan.base.kind))
    assert tried == [
        (20, LogFileKind.CHECKPOINT),
        (10, LogFileKind.V2),
        (10, LogFileKind.CHECKPOINT),
        (None, None),
    ]


def test_where_all_checkpoints_below_are_corrupt_the_error_says_so():
    plan = planned([*span(11, 31), classic(10), classic(20)], from_version=15)
    with pytest.raises(VersionNotFoundError, match=r"begin at is 20; the checkpoint.*is corrupt"):
        plan.without_base("its footer is torn")


@pytest.mark.parametrize("wanted", [-1, "3", 3.0, True])
def test_what_is_no_version_is_refused(wanted):
    with pytest.raises(BadArgumentError, match="There is no version"):
        PlanOptions(from_version=wanted)
    with pytest.raises(BadArgumentError, match="There is no version"):
        PlanOptions(up_to_version=wanted)


def test_options_that_contradict_each_other_are_refused():
    with pytest.raises(BadArgumentError, match="begins at version 5 cannot end at version 4"):
        PlanOptions(from_version=5, up_to_version=4)
    assert planned(WHOLE, from_version=5, up_to_version=5).oldest == 5
    with pytest.raises(BadArgumentError, match="at version 5 or at the newest checkpoint"):
        PlanOptions(from_version=5, checkpoint_only=True)
