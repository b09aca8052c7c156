"""A hole is believed only when it is proven; a place without a log is told with what lies there."""

import pytest

from deltasql.errors import (
    AccessDeniedError,
    LogGapError,
    MalformedActionError,
    ObjectNotFoundError,
    StorageUnavailableError,
)
from deltasql.imports.plan.import_plan import PlanOptions, read_plan
from deltasql.protocol.log_names import commit_key
from deltasql.storage.local import LocalStore
from deltasql.storage.memory import MemoryStore
from deltasql.testing.faulty_store import Fault, FaultyStore, Kind
from log_listings import versions


def a_log(*present: int) -> MemoryStore:
    store = MemoryStore("memory://lake/t")
    for version in present:
        store.put(commit_key(version), b"{}")
    return store


class Growing:
    """Between two listings, something happens."""

    def __init__(self, inner, *happens):
        self._inner = inner
        self._happens = iter(happens)
        self.listings = 0

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def list_from(self, prefix, start_after=""):
        found = list(self._inner.list_from(prefix, start_after))
        self.listings += 1
        next(self._happens, lambda: None)()
        return iter(found)


def test_a_log_is_read_as_it_is():
    plan = read_plan(a_log(0, 1, 2), PlanOptions(up_to_version=1))
    assert (plan.uri, versions(plan)) == ("memory://lake/t", [0, 1])


@pytest.mark.req("R77")
def test_a_commit_that_the_first_listing_missed_is_no_hole():
    store = a_log(0, 2)
    growing = Growing(store, lambda: store.put(commit_key(1), b"{}"))
    assert versions(read_plan(growing)) == [0, 1, 2]
    assert growing.listings == 2


def test_a_commit_that_was_being_written_is_not_empty():
    store = a_log(0)
    store.put(commit_key(1), b"")
    growing = Growing(store, lambda: None, lambda: store.put(commit_key(1), b"{}"))
    assert versions(read_plan(growing)) == [0, 1]


@pytest.mark.req("R75")
def test_a_hole_is_proven_by_two_listings_and_a_look():
    growing = Growing(a_log(0, 2))
    with pytest.raises(LogGapError, match="Version 1 is missing"):
        read_plan(growing)
    assert growing.listings == 2
    torn = a_log(0, 2)
    torn.put(commit_key(1), b"")
    with pytest.raises(MalformedActionError, match="is empty"):
        read_plan(torn)


def test_a_listing_that_hides_what_is_there_proves_nothing():
    store = a_log(0, 2)
    script = [Fault(Kind.STALE_LIST, newest=1, times=None)]
    hiding = FaultyStore(store, script)
    hiding.put(commit_key(1), b"{}")
    with pytest.raises(StorageUnavailableError, match="changed under every listing"):
        read_plan(hiding)


def test_other_failures_are_told_as_they_are():
    with pytest.raises(AccessDeniedError):
        read_plan(FaultyStore(a_log(0), [Fault(Kind.DENIED, operation="list_from")]))


@pytest.mark.parametrize(
    ("folder", "present", "hint"),
    [
        ("lake", ["lake/a/_delta_log/0.json"], "There are tables below it: 'a'"),
        ("t", ["t/_Delta_Log/0.json"], "The folder '_Delta_Log' is not the _delta_log"),
        ("t", ["t/delta_log/0.json"], "The folder 'delta_log' is not the _delta_log"),
        ("t/_delta_log", ["t/_delta_log/0.json"], "Give the table's folder"),
        ("t", ["t/x=1/part-0.parquet"], "It holds no folder _delta_log"),
        ("tt", ["t/_delta_log/0.json"], "check how the location is spelled"),
    ],
)
def test_a_place_without_a_log_is_told_with_what_lies_there(tmp_path, folder, present, hint):
    for name in present:
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    with pytest.raises(ObjectNotFoundError, match="There is no Delta table at file:") as refused:
        read_plan(LocalStore(str(tmp_path / folder)))
    assert hint in refused.value.advice
    assert refused.value.exit_code == 1


def test_an_empty_log_folder_is_told(tmp_path):
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(ObjectNotFoundError) as refused:
        read_plan(LocalStore(str(tmp_path)))
    assert refused.value.advice == "The folder '_delta_log' is empty."
