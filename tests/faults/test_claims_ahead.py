"""A claim above commits that SQL lacks: they are in before SQL takes any of its own."""

import itertools

import deltalake
import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import CutoverError, MalformedActionError, NotResumableError, OwnershipError
from deltasql.imports import cutover
from deltasql.imports.cutover import cut_over
from deltasql.imports.job import ImportOptions, TableImport
from deltasql.protocol.log_names import commit_key
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants

pytestmark = pytest.mark.req("R82", "R102")
POINTS = [
    "after-claim-noted",
    "before-claim-put",
    "after-claim-put",
    "before-import-segment",
    "after-import-segment",
    "after-claim-caught-up",
    "before-cutover-commit",
]


class StopError(BaseException):
    """The process ends here."""


def stop_at(point):
    passed = itertools.count(1)

    def stop(name):
        if name == point and next(passed) == 1:
            raise StopError

    return stop


@pytest.fixture
def place(tmp_path):
    return tmp_path / "t"


@pytest.fixture
def catalog(catalog_uri, place):
    """A catalog with an import that is three commits behind its log."""
    write(place, 0, 1)
    with deltasql.connect(catalog_uri) as opened:
        opened.create_if_missing()
        TableImport(opened._lazy.create().connection, str(place), "t").run()
        write(place, 2, 3, 4)
        yield opened


def write(place, *numbers):
    for number in numbers:
        deltalake.write_deltalake(str(place), pa.table({"a": [number]}), mode="append")


def check(catalog, place, version):
    """SQL, the log and another reader have all commits, and the next one is SQL's."""
    table = catalog.table("t")
    assert table.append(pa.table({"a": [-1]})) == version + 1
    assert sorted(table.scan().to_arrow()["a"].to_pylist()) == list(range(-1, version))
    read = deltalake.DeltaTable(str(place)).to_pyarrow_table()["a"].to_pylist()
    assert sorted(read) == list(range(-1, version))
    assert catalog.mirror.verify("t") == []
    check_invariants(catalog, "t")


def test_an_import_that_is_behind_is_refused_unless_it_may_follow(catalog, place):
    with pytest.raises(CutoverError, match="is at version 4, SQL at 1") as refused:
        cut_over(inspect(catalog).connection, "t")
    assert "`follow=True`" in refused.value.advice
    assert cut_over(inspect(catalog).connection, "t", follow=True).version == 5
    check(catalog, place, 5)


@pytest.mark.parametrize("point", POINTS)
def test_whoever_comes_after_a_crash_ends_it(catalog_uri, catalog, place, point):
    with hooked(stop_at(point)), pytest.raises(StopError):
        cut_over(inspect(catalog).connection, "t", follow=True)
    with deltasql.connect(catalog_uri) as other:
        other.create_if_missing()
        with pytest.raises(NotResumableError, match="was begun and not ended"):
            TableImport(
                other._lazy.create().connection, str(place), "t", ImportOptions(resume=True)
            ).run()
        assert cut_over(inspect(other).connection, "t").version == 5
        check(other, place, 5)


def test_a_claim_that_lost_meanwhile_gives_way(catalog, place):
    with hooked(stop_at("before-claim-put")), pytest.raises(StopError):
        cut_over(inspect(catalog).connection, "t", follow=True)
    write(place, 5)
    done = cut_over(inspect(catalog).connection, "t")
    assert (done.version, done.lost) == (6, 1)
    check(catalog, place, 6)


def test_what_is_very_much_is_imported_before_the_claim(catalog, place, monkeypatch):
    monkeypatch.setattr(cutover, "_MOST_AHEAD", 2)
    assert cut_over(inspect(catalog).connection, "t", follow=True).version == 5
    check(catalog, place, 5)


def test_the_claim_keeps_what_others_changed_in_between(catalog, place):
    deltalake.DeltaTable(str(place)).alter.set_table_properties({"delta.appendOnly": "true"})
    done = cut_over(inspect(catalog).connection, "t", follow=True)
    assert done.version == 6
    assert catalog.table("t").snapshot().metadata.configuration["delta.appendOnly"] == "true"
    assert deltalake.DeltaTable(str(place)).metadata().configuration["delta.appendOnly"] == "true"
    check_invariants(catalog, "t")


def test_a_commit_that_cannot_be_read_is_told_before_anything_is_claimed(catalog, place):
    (place / commit_key(5)).write_bytes(b"{not json}\n")
    with pytest.raises(MalformedActionError, match="version 5"):
        cut_over(inspect(catalog).connection, "t", follow=True)
    assert not (place / commit_key(6)).exists()


def test_a_fence_that_came_in_between_is_respected(catalog, catalog_uri, place, tmp_path):
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/other.db") as other:
        other.create_if_missing()
        TableImport(other._lazy.create().connection, str(place), "t").run()
        cut_over(inspect(other).connection, "t")
    with pytest.raises(OwnershipError):
        cut_over(inspect(catalog).connection, "t", follow=True)
    assert not (place / commit_key(6)).exists()
