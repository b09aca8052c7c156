"""A log with a hole is refused by name, with what can still be had; never passed over silently."""

import pytest

from deltasql.errors import (
    LogGapError,
    MalformedActionError,
    ObjectNotFoundError,
    VersionNotFoundError,
)
from deltasql.imports.plan.commit_files import VersionRange
from log_listings import classic, codes, commits, multipart, planned, span, v2, versions


@pytest.mark.req("R75")
@pytest.mark.parametrize(
    ("names", "missing", "recoverable"),
    [
        ([*span(0, 6), *span(8, 9)], 7, [(0, 6)]),
        ([*span(0, 6), *span(8, 13), classic(10)], 7, [(0, 6), (10, 13)]),
        ([*span(0, 11), *commits(13), classic(10)], 12, [(0, 11)]),
        ([*commits(0), *span(5, 20), classic(10)], 1, [(0, 0), (10, 20)]),
        # the newest state is known by a checkpoint, but not how it came to be
        ([*span(0, 10), classic(12)], 11, [(0, 10), (12, 12)]),
        ([*span(0, 10), classic(11)], 11, [(0, 11)]),
        # a second hole is told when the first is closed
        ([*span(5, 8), *span(11, 14), *span(16, 20), classic(6), classic(12)], 9, None),
        ([classic(10), *commits(12)], 11, [(10, 10)]),
        (span(1, 2), 0, []),
        ([*span(11, 12), multipart(10, 1, 2)], 10, []),
    ],
)
def test_a_hole_is_refused_and_named(names, missing, recoverable):
    with pytest.raises(LogGapError) as refused:
        planned(names)
    assert refused.value.context["missing"] == missing
    assert refused.value.exit_code == 5
    if recoverable is not None:
        assert refused.value.context["recoverable"] == recoverable


@pytest.mark.req("R75")
def test_the_refusal_says_what_can_be_done():
    with pytest.raises(LogGapError) as refused:
        planned([*span(0, 6), *span(8, 13), classic(10)])
    assert refused.value.message == "Version 7 is missing from the log at memory://lake/t."
    assert refused.value.advice == (
        "Versions 0 to 6 and 10 to 13 can be reconstructed; `up_to_version=6` ends the import "
        "before the gap; `lenient=True` begins its history at version 10; `checkpoint_only=True` "
        "takes the checkpoint of version 10 and what follows."
    )
    with pytest.raises(LogGapError) as hopeless:
        planned([*span(0, 11), *commits(13), classic(10)])
    assert "lenient" not in hopeless.value.advice
    assert "`up_to_version=11`" in hopeless.value.advice


def test_lenient_begins_behind_the_hole_and_says_so():
    plan = planned([*span(0, 6), *span(8, 13), classic(10), classic(12)], lenient=True)
    assert (plan.first, plan.head, plan.base_version) == (10, 13, 10)
    assert versions(plan) == [10, 11, 12, 13]
    assert plan.left_out == (VersionRange(0, 6), VersionRange(8, 9))
    (warning,) = [one for one in plan.warnings if one.code == "unreachable-versions"]
    assert "Versions 0 to 6 and 8 to 9 are not imported: version 7 is missing" in warning.message


def test_lenient_changes_nothing_where_there_is_no_hole():
    names = [*span(0, 25), classic(10)]
    assert versions(planned(names, lenient=True)) == versions(planned(names))


@pytest.mark.parametrize("options", [{"lenient": True}, {"checkpoint_only": True}])
def test_a_hole_behind_the_newest_checkpoint_is_never_accepted(options):
    with pytest.raises(LogGapError, match="Version 12 is missing"):
        planned([*span(0, 11), *commits(13), classic(10)], **options)


@pytest.mark.parametrize("options", [{"lenient": True}, {"checkpoint_only": True}])
def test_of_two_holes_the_one_that_stops_the_import_is_named(options):
    names = [*span(0, 3), *span(5, 8), *span(10, 12), classic(6)]
    with pytest.raises(LogGapError, match="Version 4 is missing"):
        planned(names)
    with pytest.raises(LogGapError, match="Version 9 is missing"):
        planned(names, **options)


def test_an_empty_commit_is_a_corrupt_one():
    with pytest.raises(MalformedActionError, match=r"0007\.json at .* is empty") as refused:
        planned(span(0, 9), empty=commits(7))
    assert refused.value.context["version"] == 7
    assert "`up_to_version=6`" in refused.value.advice
    assert planned(span(0, 9), empty=commits(7), up_to_version=6).head == 6


@pytest.mark.parametrize("version", [0, 9])
def test_an_empty_commit_at_either_end_is_not_passed_over(version):
    with pytest.raises(MalformedActionError, match="is empty"):
        planned(span(0, 9), empty=commits(version))


def test_an_empty_commit_behind_a_later_checkpoint_can_be_left_out():
    names, empty = [*span(0, 13), classic(10)], commits(7)
    assert planned(names, empty=empty, lenient=True).first == 10
    assert planned(names, empty=empty, checkpoint_only=True).first == 10


def test_an_empty_commit_of_the_checkpoint_itself_is_not_needed():
    plan = planned([*span(11, 13), classic(10)], empty=commits(10))
    assert (plan.first, versions(plan)) == (10, [11, 12, 13])
    assert "empty-commit" in codes(plan)


@pytest.mark.parametrize(
    ("names", "up_to"),
    [
        ([*span(5, 20), classic(10)], 7),
        ([*span(5, 20), classic(10)], 2),
        ([*span(9, 20), classic(2), classic(10)], 3),
    ],
)
def test_an_end_before_all_that_can_be_told_is_refused(names, up_to):
    with pytest.raises(VersionNotFoundError, match=f"Version {up_to} of the log") as refused:
        planned(names, up_to_version=up_to)
    assert "10 to 20 can be" in refused.value.advice


@pytest.mark.parametrize("up_to", [7, 8, 9])
@pytest.mark.parametrize("options", [{}, {"lenient": True}, {"checkpoint_only": True}])
def test_an_end_in_a_hole_is_refused(up_to, options):
    with pytest.raises(LogGapError, match="Version 7 is missing"):
        planned([*span(0, 6), *span(8, 13), classic(10)], up_to_version=up_to, **options)


@pytest.mark.parametrize("options", [{"lenient": True}, {"checkpoint_only": True}])
def test_a_head_that_only_a_checkpoint_knows_is_where_the_history_begins(options):
    plan = planned([*span(0, 10), classic(11)], **options)
    assert (plan.first, plan.head, versions(plan)) == (11, 11, [])
    assert plan.left_out == (VersionRange(0, 10),)


@pytest.mark.parametrize("options", [{"lenient": True}, {"checkpoint_only": True}])
def test_an_empty_commit_at_the_head_is_never_left_out(options):
    with pytest.raises(MalformedActionError, match="is empty"):
        planned([*span(0, 12), classic(10)], empty=commits(13), **options)


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["_last_checkpoint"],
        [f"{0:020d}.crc"],
        ["0000000001.json"],
        [multipart(3, 1, 2)],
        [f"{0:020d}.{1:020d}.compacted.json"],
        [f"_staged_commits/{v2(1)}"],
    ],
)
def test_a_log_without_commits_and_checkpoints_is_none(names):
    with pytest.raises(ObjectNotFoundError, match="memory://lake/t") as refused:
        planned(names)
    assert refused.value.advice


def test_an_empty_log_tells_of_names_that_no_reader_sees():
    with pytest.raises(ObjectNotFoundError) as refused:
        planned(["0000000001.json"])
    assert "other than twenty digits" in refused.value.advice
