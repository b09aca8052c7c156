"""Random listings: a plan is whole, stands on something and ends at the head, or is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.errors import DeltaSqlError, LogGapError, MalformedActionError, VersionNotFoundError
from deltasql.imports.plan.import_plan import PlanOptions, plan_listing
from deltasql.imports.plan.listing import sort_listing
from deltasql.protocol.log_names import LOG_FOLDER, LogFile, commit_name
from deltasql.storage.port import ObjectInfo
from log_listings import UUIDS, classic, multipart, v2

VERSIONS = st.integers(0, 12)
NAMES = st.one_of(
    VERSIONS.map(commit_name),
    VERSIONS.map(classic),
    st.builds(v2, VERSIONS, st.integers(0, 2), st.sampled_from(["json", "parquet"])),
    st.builds(multipart, VERSIONS, st.integers(0, 3), st.integers(0, 3)),
    VERSIONS.map(lambda version: f"{version:020d}.crc"),
    st.builds(lambda a, b: f"{a:020d}.{b:020d}.compacted.json", VERSIONS, VERSIONS),
    VERSIONS.map(lambda version: f"_staged_commits/{version:020d}.{UUIDS[0]}.json"),
    st.from_regex(r"[0-9]{18,22}\.(json|crc|checkpoint\.parquet)", fullmatch=True),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
)
# mostly unbroken, so that plans are made and not only refused
RUNS = st.builds(
    lambda first, count, holes: {v for v in range(first, first + count) if v not in holes},
    VERSIONS,
    st.integers(0, 14),
    st.sets(VERSIONS, max_size=2),
)
LISTINGS = st.builds(
    lambda run, others, empty: (
        {commit_name(version): 7 for version in run} | dict.fromkeys(others, 9) | empty
    ),
    RUNS,
    st.sets(NAMES, max_size=12),
    st.dictionaries(NAMES, st.just(0), max_size=1),
)
HINTS = st.one_of(
    st.none(), st.binary(max_size=40), VERSIONS.map(lambda v: b'{"version":%d,"size":1}' % v)
)
OPTIONS = st.builds(
    PlanOptions,
    up_to_version=st.one_of(st.none(), st.integers(0, 15)),
    checkpoint_only=st.booleans(),
    lenient=st.booleans(),
)


FROM = st.builds(PlanOptions, from_version=st.integers(1, 15), lenient=st.booleans())


def make(sizes, hint, options):
    files = [ObjectInfo(LOG_FOLDER + name, size, 1) for name, size in sizes.items()]
    return plan_listing(sort_listing(files, hint, "memory://t"), options or PlanOptions())


def naive(sizes):
    """Return (all commits, those with bytes, versions with a whole checkpoint), by the catalog."""
    parsed = [(LogFile.parse(name), size) for name, size in sizes.items()]
    there = {f.version for f, _ in parsed if f and f.kind == "commit"}
    filled = {f.version for f, size in parsed if f and f.kind == "commit" and size}
    checkpoints = {f.version for f, size in parsed if f and f.kind in ("checkpoint", "v2") and size}
    parts = {(f.version, f.parts, f.part) for f, size in parsed if f and f.parts and size}
    for version, count, _ in parts:
        have = {part for v, n, part in parts if (v, n) == (version, count)}
        if have == set(range(1, count + 1)):
            checkpoints.add(version)
    return there, filled, checkpoints


def covers(versions, first, last):
    """Tell whether all of these versions are there; the last may be astronomically far."""
    count = max(last - first + 1, 0)
    return count <= len(versions) and all(first + n in versions for n in range(count))


@pytest.mark.req("R60")
@given(LISTINGS, HINTS, OPTIONS)
def test_a_plan_is_whole_or_refused(sizes, hint, options):
    try:
        plan = make(sizes, hint, options)
    except DeltaSqlError:
        return
    there, filled, checkpoints = naive(sizes)
    have = [file.version for file in plan.commits]
    assert have == list(range(plan.head - len(have) + 1, plan.head + 1))
    assert set(have) <= filled
    if plan.base is None:
        assert (plan.first, have[0]) == (0, 0)
    else:
        assert plan.first == plan.base_version
        assert plan.base_version in checkpoints
        begins = plan.first if plan.first in filled else plan.first + 1
        assert have == list(range(begins, plan.head + 1))
    newest = max(there | checkpoints)
    assert plan.head == (newest if options.up_to_version is None else min(newest, plan.head))
    left = {v for one in plan.left_out for v in range(one.first, one.last + 1)}
    assert left == {version for version in there if version < plan.first}


@pytest.mark.req("R75")
@given(LISTINGS, HINTS, OPTIONS)
def test_a_plan_begins_where_a_naive_search_would(sizes, hint, options):
    there, filled, checkpoints = naive(sizes)
    if not there | checkpoints:
        return
    newest = max(there | checkpoints)
    head = newest if options.up_to_version is None else min(newest, options.up_to_version)
    starts = [v for v in checkpoints if v <= head and covers(filled, v + 1, head)]
    whole = covers(filled, 0, head)
    try:
        plan = make(sizes, hint, options)
    except (LogGapError, MalformedActionError, VersionNotFoundError):
        # only the strict way may refuse where there is one
        assert not (starts or whole) or not (options.lenient or options.checkpoint_only)
        return
    assert plan.head == head
    if options.checkpoint_only:
        assert plan.first == (max(starts) if starts else 0)
    else:
        assert plan.first == (0 if whole else min(starts))


@pytest.mark.req("R80")
@given(LISTINGS, HINTS, FROM)
def test_a_history_that_begins_at_a_version_has_the_nearest_start_below(sizes, hint, options):
    there, filled, checkpoints = naive(sizes)
    if not there | checkpoints:
        return
    head, wanted = max(there | checkpoints), options.from_version
    starts = [v for v in checkpoints if covers(filled, v + 1, head)]
    starts += [0] if covers(filled, 0, head) else []
    below = [version for version in starts if version <= wanted]
    try:
        plan = make(sizes, hint, options)
    except (LogGapError, MalformedActionError, VersionNotFoundError):
        assert wanted > head or not below
        assert wanted > head or not (starts and options.lenient)
        return
    assert plan.head == head >= wanted
    assert plan.first == (max(below) if below else min(starts))
    assert plan.oldest == max(plan.first, wanted)
    left = {v for one in plan.left_out for v in range(one.first, one.last + 1)}
    assert left == {version for version in there if version < plan.oldest}


@given(LISTINGS, HINTS, st.one_of(OPTIONS, FROM))
def test_grounds_that_prove_corrupt_are_tried_once_each_and_then_it_ends(sizes, hint, options):
    try:
        plan = make(sizes, hint, options)
    except DeltaSqlError:
        return
    head, tried = plan.head, []
    while plan.base is not None:
        assert plan.base not in tried
        tried.append(plan.base)
        promised = plan.candidates
        try:
            plan = plan.without_base("it is torn.")
        except (LogGapError, MalformedActionError, VersionNotFoundError):
            break
        assert plan.head == head
        assert promised == () or plan.base == promised[0]
