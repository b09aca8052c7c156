"""An import that dies anywhere goes on and ends with the rows of one that never died."""

import itertools
import os
import random
import signal
import subprocess
import sys

import pytest

import deltasql
from deltasql.errors import DeltaSqlError
from deltasql.imports.cutover import cut_over
from deltasql.imports.job import ImportOptions, TableImport
from deltasql.imports.read import tasks
from deltasql.protocol.log_names import commit_key
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants
from histories import History
from import_faults import IMPORT_POINTS, truncated
from import_rows import book_rows

pytestmark = pytest.mark.req("R63", "R69", "R79")
CUTOVER_POINTS = [
    "after-claim-marker",
    "before-claim-noted",
    "after-claim-noted",
    "before-claim-put",
    "after-claim-put",
    "before-cutover-commit",
    "after-cutover-commit",
]


class StopError(BaseException):
    """The process ends here."""


def do_import(catalog, root, name="t", **options):
    return TableImport(
        catalog._lazy.create().connection, str(root), name, ImportOptions(**options)
    ).run()


def stop_at(point, turn):
    passed = itertools.count(1)

    def stop(name):
        if name == point and next(passed) == turn:
            raise StopError

    return stop


@pytest.fixture
def source(tmp_path):
    """A log with a long history."""
    return History(11, versions=24, vectors=False).write(tmp_path / "t")


def go_on(catalog, root):
    """Do what an operator does after a crash: resume, or begin where nothing was begun."""
    try:
        return do_import(catalog, root, resume=True)
    except DeltaSqlError:
        return do_import(catalog, root)


@pytest.mark.parametrize("stop", IMPORT_POINTS, ids=lambda stop: f"{stop[0]}-{stop[1]}")
def test_a_crash_at_any_point_leaves_no_trace(catalog_uri, second_uri, source, monkeypatch, stop):
    monkeypatch.setattr(tasks, "TASK_VERSIONS", 5)
    if "segment" in stop[0]:
        monkeypatch.setattr(tasks, "SEGMENT_BYTES", 1)
    if "part" in stop[0]:
        truncated(source, 9)
    with deltasql.connect(second_uri) as whole:
        expected = book_rows(whole, do_import(whole, source).row.table_id)
    with (
        deltasql.connect(catalog_uri) as catalog,
        hooked(stop_at(*stop)),
        pytest.raises(StopError),
    ):
        do_import(catalog, source)
    with deltasql.connect(catalog_uri) as catalog:
        done = go_on(catalog, source)
        assert book_rows(catalog, done.row.table_id) == expected
        assert [one.name for one in catalog.tables()] == ["t"]


@pytest.mark.parametrize("point", ["before-stats-part", "after-stats-filled", "before-import-ends"])
@pytest.mark.parametrize("cut", [2, 50])
def test_an_import_that_died_behind_its_index_goes_on_with_a_longer_log(
    catalog_uri, second_uri, source, monkeypatch, *, point, cut
):
    """Several windows: all files are indexed once more. One: the index that is there goes on."""
    later = {version: (source / commit_key(version)).read_bytes() for version in range(13, 24)}
    for version in later:
        (source / commit_key(version)).unlink()
    with (
        deltasql.connect(catalog_uri) as catalog,
        hooked(stop_at(point, 1)),
        pytest.raises(StopError),
    ):
        do_import(catalog, source)
    for version, payload in later.items():
        (source / commit_key(version)).write_bytes(payload)
    monkeypatch.setattr(tasks, "TASK_VERSIONS", cut)
    with deltasql.connect(second_uri) as whole:
        expected = book_rows(whole, do_import(whole, source).row.table_id)
    with deltasql.connect(catalog_uri) as catalog:
        done = do_import(catalog, source, resume=True)
        found = book_rows(catalog, done.row.table_id)
        for name in [name for name in found if name.startswith("dl_stats") and cut == 50]:
            del found[name], expected[name]
        assert found == expected
        check_invariants(catalog, "t")


@pytest.mark.req("R102")
@pytest.mark.parametrize("point", CUTOVER_POINTS)
def test_a_cut_over_that_dies_is_ended_by_the_next(catalog_uri, source, point):
    import pyarrow as pa

    with deltasql.connect(catalog_uri) as catalog:
        do_import(catalog, source)
        with hooked(stop_at(point, 1)), pytest.raises(StopError):
            cut_over(inspect(catalog).connection, "t")
    with deltasql.connect(catalog_uri) as catalog:
        catalog.create_if_missing()
        if point != "after-cutover-commit":
            assert cut_over(inspect(catalog).connection, "t").version == 24
        table = catalog.table("t")
        assert table.append(pa.table({"id": [1], "p": ["a"]})) == 25
        assert catalog.mirror.verify("t") == []
        check_invariants(catalog, "t")


def test_a_claim_that_lost_after_a_crash_is_forgotten(catalog_uri, source):
    with deltasql.connect(catalog_uri) as catalog:
        do_import(catalog, source)
        with hooked(stop_at("before-claim-put", 1)), pytest.raises(StopError):
            cut_over(inspect(catalog).connection, "t")
        foreign = b'{"commitInfo":{"timestamp":1,"operation":"THEIRS"}}\n'
        (source / commit_key(24)).write_bytes(foreign)
        done = cut_over(inspect(catalog).connection, "t")
        assert (done.version, done.lost) == (25, 1)
        assert inspect(catalog).metastore.payload(done.row.table_id, 24) == foreign
        assert catalog.mirror.verify("t") == []


_CHILD = """
import sys
import deltasql
from deltasql.testing import inspect
from deltasql.imports.job import ImportOptions, TableImport
from deltasql.imports.read import tasks
from deltasql.imports.engines.local import LocalEngine
tasks.TASK_VERSIONS, tasks.SEGMENT_BYTES = 3, 20_000
uri, source, cores = sys.argv[1:4]
with deltasql.connect(uri) as catalog:
    connection = inspect(catalog).connection
    options = ImportOptions(resume="t" in [row.name for row in connection.metastore.tables()])
    print("ready", flush=True)
    TableImport(connection, source, "t", options, LocalEngine(int(cores))).run()
print("done", flush=True)
"""


def test_a_kill_between_the_parts_of_a_state_leaves_no_trace(catalog_uri, second_uri, source):
    """What was loaded before is heard again, or the comparison would miss it."""
    truncated(source, 9)
    with deltasql.connect(second_uri) as whole:
        expected = book_rows(whole, do_import(whole, source).row.table_id)
    with deltasql.connect(catalog_uri) as made:
        made.create_if_missing()
    env = {**os.environ, "DELTASQL_TESTING": "1", "DELTASQL_CRASH_AT": "after-import-part"}
    words = [sys.executable, "-c", _CHILD, catalog_uri, str(source), "1"]
    killed = subprocess.run(words, env=env, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    with deltasql.connect(catalog_uri) as catalog:
        done = do_import(catalog, source, resume=True)
        assert done.validation is not None
        assert list(done.validation.lines()) == []
        assert book_rows(catalog, done.row.table_id) == expected


@pytest.mark.verify
def test_kill_9_at_random_then_resume(catalog_uri, second_uri, source):
    """Kill the import again and again until one run gets through."""
    seed = int(os.environ.get("DELTASQL_SEED", "20261116"))
    print(f"seed {seed}")
    rng = random.Random(seed)
    History(11, versions=120, vectors=False).write(source)
    with deltasql.connect(second_uri) as whole:
        expected = book_rows(whole, do_import(whole, source).row.table_id)
    with deltasql.connect(catalog_uri) as made:
        made.create_if_missing()
    for number in range(12):
        # by a thread and by processes in turn
        child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, catalog_uri, str(source), str(1 + number % 2)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert child.stdout is not None
        child.stdout.readline()
        try:
            child.wait(rng.uniform(0.05, 2.0))
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
        _, errors = child.communicate()
        if child.returncode == 0:
            break
        assert child.returncode == -signal.SIGKILL, errors.decode()
    with deltasql.connect(catalog_uri) as catalog:
        done = go_on(catalog, source)
        assert book_rows(catalog, done.row.table_id) == expected
