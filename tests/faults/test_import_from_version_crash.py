"""An import from a version on that dies while it drops the older ones is ended by the next."""

import itertools
import os
import signal
import subprocess
import sys

import pytest

import deltasql
from cut_histories import daily_log, do_import, versions_of
from deltasql.errors import TableStateError
from deltasql.imports.read import tasks
from deltasql.metastore import retention
from deltasql.metastore.table_row import TableState
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from import_rows import book_rows
from legacy import checkpoint_at

pytestmark = pytest.mark.req("R80")
OLDEST = 17
# where, and at the how-manieth passing
POINTS = [
    ("before-import-begins", 1),
    ("after-import-part", 1),
    ("after-import-segment", 2),
    ("before-import-dropped", 1),
    ("before-history-floor", 1),
    ("after-history-floor", 1),
    ("after-forget-files", 1),
    ("after-forget-versions", 1),
    ("after-forget-versions", 2),
    ("after-import-dropped", 1),
    ("before-import-noted", 1),
    ("before-stats-begun", 1),
    ("before-import-ends", 1),
]


class StopError(BaseException):
    """The process ends here."""


def stop_at(point, turn):
    passed = itertools.count(1)

    def stop(name):
        if name == point and next(passed) == turn:
            raise StopError

    return stop


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A log of which the checkpoint at 2 is the nearest; many windows, many steps."""
    monkeypatch.setattr(tasks, "TASK_VERSIONS", 5)
    monkeypatch.setattr(tasks, "SEGMENT_BYTES", 1)
    monkeypatch.setattr(retention, "_STEP", 6)
    root = daily_log(tmp_path / "t", 3)
    checkpoint_at(root, 2)
    return root


@pytest.fixture
def expected(second_uri, source):
    with deltasql.connect(second_uri) as whole:
        row = do_import(whole, source, from_version=OLDEST).row
        return book_rows(whole, row.table_id), versions_of(whole, "t", OLDEST)


def require_ended(catalog, source, expected):
    found = inspect(catalog).metastore.find_table("t")
    if found is None:
        done = do_import(catalog, source, from_version=OLDEST)
    else:
        with pytest.raises(TableStateError, match="being imported"):
            catalog.table("t")
        done = do_import(catalog, source, resume=True)
    assert done.row.state is TableState.READ_ONLY
    assert done.validation.is_equal
    assert (book_rows(catalog, done.row.table_id), versions_of(catalog, "t", OLDEST)) == expected
    assert [entry.version for entry in catalog.table("t").history()][-1] == OLDEST


@pytest.mark.parametrize("stop", POINTS, ids=lambda stop: f"{stop[0]}-{stop[1]}")
def test_a_crash_leaves_no_trace(catalog_uri, source, expected, stop):
    hook = hooked(stop_at(*stop))
    with deltasql.connect(catalog_uri) as catalog, hook, pytest.raises(StopError):
        do_import(catalog, source, from_version=OLDEST)
    with deltasql.connect(catalog_uri) as catalog:
        require_ended(catalog, source, expected)


_CHILD = """
import sys
import deltasql
uri, source = sys.argv[1:3]
with deltasql.connect(uri) as catalog:
    catalog.import_table(source, "t", engine="local", from_version=17)
"""


@pytest.mark.parametrize("point", ["before-import-dropped", "after-forget-files"])
def test_a_kill_between_load_and_drop_leaves_no_trace(catalog_uri, source, expected, point):
    with deltasql.connect(catalog_uri) as made:
        made.create_if_missing()
    env = {**os.environ, "DELTASQL_TESTING": "1", "DELTASQL_CRASH_AT": point}
    words = [sys.executable, "-c", _CHILD, catalog_uri, str(source)]
    killed = subprocess.run(words, env=env, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    with deltasql.connect(catalog_uri) as catalog:
        require_ended(catalog, source, expected)


def test_a_source_that_grows_after_the_crash_is_followed(catalog_uri, source, second_uri):
    with deltasql.connect(catalog_uri) as catalog:
        stop = hooked(stop_at("after-forget-versions", 1))
        with stop, pytest.raises(StopError):
            do_import(catalog, source, from_version=OLDEST, up_to_version=20)
        assert do_import(catalog, source, resume=True).validation.is_equal
        with deltasql.connect(second_uri) as whole:
            do_import(whole, source)
            assert versions_of(catalog, "t", OLDEST) == versions_of(whole, "t", OLDEST)
