"""The plan of every real table is what an independent replay of it found."""

import itertools
from pathlib import Path

import pytest

from corpora import EXPECTED, needs_corpora
from deltasql.errors import LogGapError, ObjectNotFoundError
from deltasql.imports.lake import find_logs
from deltasql.imports.plan.import_plan import PlanOptions, read_plan
from deltasql.imports.plan.reachability import find_reach
from deltasql.storage.local import LocalStore

pytestmark = needs_corpora
BROKEN = {name for name, case in EXPECTED.items() if "gap" in str(case["reasons"])}
HOLED = {name for name, case in EXPECTED.items() if case.get("history_gaps")}
NO_LOG = {name for name, case in EXPECTED.items() if case.get("head_version") is None}
WHOLE = sorted(set(EXPECTED) - BROKEN - HOLED - NO_LOG)


def store_of(tables: Path, name: str) -> LocalStore:
    return LocalStore(str(tables / name / "delta"))


@pytest.mark.req("R60")
@pytest.mark.parametrize("name", WHOLE)
def test_a_plan_begins_and_ends_where_the_table_does(tables: Path, name: str) -> None:
    plan = read_plan(store_of(tables, name))
    case = EXPECTED[name]
    assert plan.head == case["head_version"]
    assert plan.first == case["first_reconstructible_version"]
    assert {str(v) for v in range(plan.first, plan.head + 1)} == set(case["versions"] or ())
    reach = find_reach(plan.listing.commits, plan.listing.checkpoints, plan.head)
    assert [(one.first, one.last) for one in reach.reconstructible()] == [(plan.first, plan.head)]


@pytest.mark.parametrize("name", WHOLE)
def test_checkpoint_only_ends_at_the_same_head(tables: Path, name: str) -> None:
    plan = read_plan(store_of(tables, name), PlanOptions(checkpoint_only=True))
    assert plan.head == EXPECTED[name]["head_version"]
    newest = max((one.version for one in plan.checkpoints), default=0)
    assert plan.first == newest


@pytest.mark.req("R75")
@pytest.mark.parametrize("name", sorted(HOLED))
def test_a_hole_in_the_history_is_told_and_can_be_accepted(tables: Path, name: str) -> None:
    store, case = store_of(tables, name), EXPECTED[name]
    with pytest.raises(LogGapError) as refused:
        read_plan(store)
    spans = refused.value.context["recoverable"]
    assert refused.value.context["missing"] == case["history_gaps"][0][0]
    assert spans[0][0] == case["first_reconstructible_version"]
    between = itertools.pairwise(spans)
    assert [[end + 1, start - 1] for (_, end), (start, _) in between] == case["history_gaps"]
    plan = read_plan(store, PlanOptions(lenient=True))
    assert (plan.first, plan.head) == (case["history_gaps"][-1][1] + 1, case["head_version"])


@pytest.mark.req("R75")
@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_hole_behind_the_newest_checkpoint_is_refused(tables: Path, name: str) -> None:
    told = {int(version) for version in EXPECTED[name]["versions"]}
    for options in (PlanOptions(), PlanOptions(lenient=True), PlanOptions(checkpoint_only=True)):
        with pytest.raises(LogGapError) as refused:
            read_plan(store_of(tables, name), options)
        ((first, last),) = refused.value.context["recoverable"]
        assert told == set(range(first, last + 1))


@pytest.mark.parametrize("name", sorted(NO_LOG))
def test_no_log_is_no_table(tables: Path, name: str) -> None:
    with pytest.raises(ObjectNotFoundError, match=name):
        read_plan(store_of(tables, name))


def test_all_tables_of_the_corpora_are_found_from_above(tables: Path) -> None:
    found = {one.folder for one in find_logs(LocalStore(str(tables))) if one.has_version}
    assert {f"{name}/delta" for name in set(EXPECTED) - NO_LOG} <= found
    assert not {f"{name}/delta" for name in NO_LOG} & found
