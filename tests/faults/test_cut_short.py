"""Upkeep that dies at one of its points has done all or nothing of that step, and is done again."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import deltasql
from builders import NO_MIRROR, a_table, an_add, ids, rows
from contests import check_settled, contest, saved
from deltasql.errors import StorageUnavailableError
from deltasql.protocol.log_names import commit_key
from deltasql.storage.local import LocalStore
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants
from histories import History
from import_rows import book_rows

FOREIGN = b'{"commitInfo":{"timestamp":1,"operation":"THEIRS"}}\n'


class StopError(BaseException):
    """The process ends here."""


def stopped(point, work):
    """Do some work up to a point, where it dies."""

    def stop(name):
        if name == point:
            raise StopError

    with hooked(stop), pytest.raises(StopError):
        work()


@pytest.fixture
def table(catalog, tmp_path):
    made = a_table(catalog, tmp_path)
    made.append(rows(1))
    return made


@pytest.fixture
def source(tmp_path):
    """A log of others."""
    return History(11, versions=8, vectors=False).write(tmp_path / "t")


def commit_file(table, version) -> Path:
    return Path(table.location.removeprefix("file://")) / commit_key(version)


def test_a_conflict_is_kept(catalog, table):
    commit_file(table, 2).write_bytes(FOREIGN)
    stopped("after-mirror-conflict", lambda: table.commit([an_add("ours")]))
    assert (table.version, table.state) == (2, "conflict")
    catalog.mirror.run_once()
    assert commit_file(table, 2).read_bytes() == FOREIGN


def test_a_failure_is_tried_again(catalog_uri, table, monkeypatch):
    def unreachable(*_):
        raise StorageUnavailableError("The store does not answer.")

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "put_if_absent", unreachable)
        stopped("after-mirror-failure", lambda: table.commit([an_add("ours")]))
    assert (table.version, table.state) == (2, "active")
    assert not commit_file(table, 2).exists()
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        catalog.table("orders").wait_mirrored()
        check_invariants(catalog, "orders")


@pytest.mark.req("R28")
@pytest.mark.parametrize("point", ["foreign-kept-aside", "foreign-replaced", "after-set-state"])
def test_a_repair_by_the_operators_word(catalog, table, point):
    commit_file(table, 2).write_bytes(FOREIGN)
    table.commit([an_add("ours")])
    stopped(point, lambda: catalog.mirror.repair("orders", replace=True))
    assert table.state == "conflict"
    catalog.mirror.repair("orders", replace=True)
    assert table.state == "active"
    saved = list((commit_file(table, 0).parent / "_deltasql_saved").iterdir())
    assert [one.read_bytes() for one in saved] == [FOREIGN]
    assert table.commit([an_add("next")]) == 3
    assert catalog.mirror.verify("orders") == []
    check_invariants(catalog, "orders")


CONTEST_POINTS = [
    "after-set-state",
    "foreign-kept-aside",
    "foreign-file-taken-away",
    "foreign-taken-away",
    "foreign-replaced",
    "before-put",
    "after-put",
    "before-batch-status",
    "after-batch-status",
]
RECOMMIT_POINTS = [
    "after-files",
    "after-version-row",
    "before-recommit-commit",
    "after-recommit-commit",
]


@pytest.mark.req("R87")
@pytest.mark.parametrize("passage", [1, 2])
@pytest.mark.parametrize(
    ("way", "point"),
    [("replace", point) for point in CONTEST_POINTS]
    + [("recommit", point) for point in (*RECOMMIT_POINTS, *CONTEST_POINTS)],
)
def test_a_contest_is_settled_by_saying_it_again(catalog, table, way, point, passage):
    """Whatever was done before is not done twice, and nothing is lost on either side."""
    foreign = contest(table, ours=(10, 11), theirs=(100, 101, 102))
    for number in (3, 4):
        (commit_file(table, number).parent / f"{number:020d}.crc").write_text("{}")
    left = [passage]

    def stop(name):
        left[0] -= name == point
        if name == point and left[0] == 0:
            raise StopError

    with hooked(stop), contextlib.suppress(StopError):
        catalog.mirror.repair("orders", **{way: True})
    assert left[0] < passage  # the point was passed
    catalog.mirror.repair("orders", **{way: True})
    theirs = [100, 101, 102] if way == "recommit" else []
    assert ids(table) == [1, 10, 11, *theirs]
    assert table.version == 3 + len(theirs)
    names = {commit_file(table, version).name for version in foreign}
    assert set(saved(table)) == names | {f"{number:020d}.crc" for number in (3, 4)}
    assert [saved(table)[commit_file(table, v).name] for v in foreign] == list(foreign.values())
    check_settled(catalog, table, acknowledged={"own-10": 2, "own-11": 3})


@pytest.mark.req("R87")
@pytest.mark.parametrize("point", ["before-adopt-commit", "after-adopt-commit"])
def test_an_adoption(catalog, table, point):
    for version in (2, 3):
        commit_file(table, version).write_bytes(FOREIGN)
    stopped(point, lambda: catalog.mirror.repair("orders", adopt=True))
    assert table.version == (1 if point == "before-adopt-commit" else 2)
    catalog.mirror.repair("orders", adopt=True)
    assert table.version == 3
    assert [entry.origin for entry in table.history(2)] == ["adopted", "adopted"]
    assert catalog.mirror.verify("orders") == []
    check_invariants(catalog, "orders")


@pytest.mark.req("R87")
@pytest.mark.parametrize("point", ["before-forget-log", "after-forget-log", "after-take-over"])
def test_a_lost_log_that_is_rebuilt(catalog, table, point):
    shutil.rmtree(commit_file(table, 0).parent)
    stopped(point, lambda: catalog.mirror.recover("orders"))
    catalog.mirror.recover("orders")
    assert ids(table) == [1]
    assert catalog.mirror.verify("orders") == []
    check_invariants(catalog, "orders")


def test_a_new_epoch(catalog, catalog_uri, table):
    stopped("before-new-epoch", catalog.new_epoch)
    assert table.append(rows(2)) == 2  # nobody was fenced off
    assert catalog.new_epoch() == 2


@pytest.mark.req("R79")
def test_an_import_that_has_no_whole_version(catalog, source):
    first = source / commit_key(0)
    good = first.read_bytes()
    first.write_bytes(b"{")

    def do_import(**options):
        catalog.import_table(str(source), "t", engine="local", **options)

    stopped("before-import-erased", do_import)
    assert catalog.tables() == []
    first.write_bytes(good)
    do_import(resume=True)
    assert [info.name for info in catalog.tables()] == ["t"]
    check_invariants(catalog, "t")


@pytest.mark.req("R103")
@pytest.mark.parametrize("point", ["before-copy-erased", "before-copy-detached"])
def test_an_import_that_is_given_back(catalog, source, point):
    catalog.import_table(str(source), "t", engine="local")
    before = book_rows(catalog, catalog.table("t").table_id)

    def give_back():
        if point == "before-copy-erased":
            catalog.drop("t")
        else:
            catalog.table("t").detach()

    stopped(point, give_back)
    assert catalog.table("t").state == "read_only"
    assert book_rows(catalog, catalog.table("t").table_id) == before
    give_back()
    left = [info.state for info in catalog.tables()]
    assert left == ([] if point == "before-copy-erased" else ["detached"])


@pytest.mark.req("R102")
@pytest.mark.parametrize("point", ["after-claim-lost", "before-claim-forgotten"])
def test_a_cut_over_that_lost_a_race(catalog, source, point):
    catalog.import_table(str(source), "t", engine="local")
    head = catalog.table("t").version

    def beaten(name):
        if name == "before-claim-put":
            (source / commit_key(head + 1)).write_bytes(FOREIGN)
        if name == point:
            raise StopError

    with hooked(beaten), pytest.raises(StopError):
        catalog.cutover("t")
    assert catalog.table("t").state == "read_only"
    catalog.cutover("t", follow=True)
    assert catalog.table("t").version == head + 2
    assert (source / commit_key(head + 1)).read_bytes() == FOREIGN
    assert catalog.mirror.verify("t") == []
    check_invariants(catalog, "t")


_FORCE = """
import sys
import deltasql
with deltasql.connect(sys.argv[1]) as catalog:
    catalog.import_table(sys.argv[2], "t", engine="local", force=True)
"""


@pytest.mark.req("R66")
def test_an_import_by_force(catalog_uri, catalog, source):
    """A real kill: the old table stays, and what was imported aside goes with the next try."""
    catalog.import_table(str(source), "t", engine="local")
    first = catalog.table("t").table_id
    env = {"DELTASQL_TESTING": "1", "DELTASQL_CRASH_AT": "before-import-replaces"}
    words = [sys.executable, "-c", _FORCE, catalog_uri, str(source)]
    killed = subprocess.run(words, env=os.environ | env, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert catalog.table("t").table_id == first
    assert [info.name for info in catalog.tables()] == ["t"]
    catalog.import_table(str(source), "t", engine="local", force=True)
    (row,) = inspect(catalog).metastore.tables()
    assert (row.name, row.state, row.table_id == first) == ("t", "read_only", False)
