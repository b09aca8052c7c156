"""Two runs import one table at once: one of them is refused, and nothing is lost or doubled."""

import threading
import time

import pytest

import deltasql
from deltasql.errors import DeltaSqlError, TableStateError
from deltasql.imports.load.bulk_load import BulkLoad
from deltasql.imports.load.stats_fill import StatsFill
from deltasql.imports.load.tables import Importing
from deltasql.protocol.log_names import commit_key
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from import_logs import (
    KillError,
    add,
    cut_by,
    do_import,
    files_of,
    kills,
    remove,
    stop_at,
    write_commit,
    write_log,
)
from import_rows import book_rows

pytestmark = pytest.mark.req("R71", "R77")
__all__ = ["kills"]
LOG = [[add(f"f{v}", v, low=100 * v, high=100 * v + 9)] for v in range(6)]
EVERY = [f"f{v}" for v in range(6)]


def grow(root):
    for version in range(2, len(LOG)):
        write_commit(root, version, LOG[version])


@pytest.mark.usefixtures("kills")
def test_a_table_is_finished_over_the_segment_of_another_run(catalog_uri, tmp_path, monkeypatch):
    """A is slow before it ends; B goes on with a longer log and is killed inside a segment."""
    root = write_log(tmp_path / "t", LOG[:2])
    real = Importing.finish

    def finish(self, *args):
        monkeypatch.setattr(Importing, "finish", real)
        grow(root)
        cut_by(monkeypatch, [4])
        with (
            deltasql.connect(catalog_uri) as other,
            hooked(stop_at("after-import-window", 2)),
            pytest.raises(KillError),
        ):
            do_import(other, root, resume=True)
        return real(self, *args)

    monkeypatch.setattr(Importing, "finish", finish)
    with deltasql.connect(catalog_uri) as catalog:
        done = do_import(catalog, root, index=False)
        assert files_of(catalog, done.row.table_id) == EVERY[:2]
        done = do_import(catalog, root, resume=True)
        assert files_of(catalog, done.row.table_id) == EVERY


@pytest.mark.usefixtures("kills")
def test_an_index_does_not_count_over_the_segment_of_another_run(  # noqa: C901 (two runs, step by step)
    catalog_uri, tmp_path, monkeypatch
):
    """A fills its index; B marks a segment and puts a window; A ends; B goes on to the end."""
    root = write_log(tmp_path / "t", LOG[:2])
    b_marked, b_window, b_may_put, b_may_end = (threading.Event() for _ in range(4))
    mark, begin, fill = BulkLoad._mark, StatsFill._begin, StatsFill._fill
    real = Importing.finish
    turns: list[str] = []

    def is_b():
        return threading.current_thread().name == "B"

    def marked(self, segment):
        found = mark(self, segment)
        if is_b():
            b_marked.set()
            assert b_may_put.wait(60)
        return found

    def hook(name):
        if name == "after-import-window" and is_b() and not b_window.is_set():
            b_window.set()
            assert b_may_end.wait(60)

    def b():
        with deltasql.connect(catalog_uri) as other:
            do_import(other, root, resume=True, validate=False)

    thread = threading.Thread(target=b, name="B")

    def begun(self, table_id):
        found = begin(self, table_id)
        if not turns:
            turns.append("A has begun its index")
            grow(root)
            cut_by(monkeypatch, [4])
            thread.start()
            assert b_marked.wait(60)
        return found

    def filled(self, *args):
        found = fill(self, *args)
        if len(turns) == 1:
            turns.append("A has filled its index")
            b_may_put.set()
            assert b_window.wait(60)
        return found

    def finish(self, *_):
        monkeypatch.setattr(Importing, "finish", real)
        b_may_end.set()
        thread.join()
        raise KillError

    monkeypatch.setattr(BulkLoad, "_mark", marked)
    monkeypatch.setattr(StatsFill, "_begin", begun)
    monkeypatch.setattr(StatsFill, "_fill", filled)
    monkeypatch.setattr(Importing, "finish", finish)
    with hooked(hook), deltasql.connect(catalog_uri) as catalog, pytest.raises(KillError):
        do_import(catalog, root)
    assert len(turns) == 2
    with deltasql.connect(catalog_uri) as catalog:
        table_id = inspect(catalog).metastore.table("t").table_id
        assert files_of(catalog, table_id) == EVERY
        assert files_of(catalog, table_id, where="id > 450") == ["f5"]


@pytest.mark.usefixtures("kills")
def test_nobody_ends_the_index_that_another_run_has_begun(catalog_uri, tmp_path, monkeypatch):
    root = write_log(tmp_path / "t", LOG)
    fill, turns = StatsFill._fill, []

    def dies(self, *args):
        raise KillError

    def filled(self, *args):
        found = fill(self, *args)
        if not turns:
            turns.append("B")
            monkeypatch.setattr(StatsFill, "_fill", dies)
            with deltasql.connect(catalog_uri) as other, pytest.raises(KillError):
                do_import(other, root, resume=True, validate=False)
            monkeypatch.setattr(StatsFill, "_fill", fill)
        return found

    monkeypatch.setattr(StatsFill, "_fill", filled)
    with deltasql.connect(catalog_uri) as catalog:
        done = do_import(catalog, root)
        assert turns == ["B"]
        assert files_of(catalog, done.row.table_id, where="id > 450") == ["f5"]
        columns = inspect(catalog).database.fetch_all("stats_columns", table_id=done.row.table_id)
        assert len([row for row in columns if row[5] is None]) == 1


@pytest.mark.usefixtures("kills")
@pytest.mark.parametrize("has_adds", [True, False])
def test_a_part_of_a_checkpoint_is_loaded_once(
    catalog_uri, second_uri, tmp_path, monkeypatch, has_adds
):
    """B asked how far A was before A's part came."""
    deltalake = pytest.importorskip("deltalake")
    now = int(time.time() * 1000)
    log = [[add("f0"), add("f1")], [], [add("g", 2)]]
    removed = ["f1"] if has_adds else ["f0", "f1"]
    log[1] = [remove(path, deletionTimestamp=now) for path in removed]
    root = write_log(tmp_path / "t", log)
    deltalake.DeltaTable(str(root), version=1).create_checkpoint()
    for version in (0, 1):
        (root / commit_key(version)).unlink()
    with deltasql.connect(second_uri) as whole:
        expected = book_rows(whole, do_import(whole, root).row.table_id)
        assert len(expected["dl_removed_files"]) == len(removed)
    real = Importing.state_part

    def last(self, *args):
        real(self, *args)
        raise KillError

    def slow(self, *args):
        monkeypatch.setattr(Importing, "state_part", last)
        with deltasql.connect(catalog_uri) as other, pytest.raises(KillError):
            do_import(other, root, resume=True)
        monkeypatch.setattr(Importing, "state_part", real)
        return real(self, *args)

    monkeypatch.setattr(Importing, "state_part", slow)
    with deltasql.connect(catalog_uri) as catalog:
        with pytest.raises(DeltaSqlError, match="cannot be imported"):
            do_import(catalog, root)
        done = do_import(catalog, root, resume=True)
        assert done.validation.is_equal
        found = book_rows(catalog, done.row.table_id)
        assert found["dl_removed_files"] == expected["dl_removed_files"]
        assert found["dl_files"] == expected["dl_files"]


@pytest.mark.parametrize("how", ["goes on", "is interrupted"])
def test_a_run_whose_table_was_taken_over_is_refused_and_erases_nothing(
    catalog_uri, tmp_path, monkeypatch, how
):
    """B resumes while A is between two windows, and is killed inside its own segment."""
    root = write_log(tmp_path / "t", LOG)
    cut_by(monkeypatch, [6, 6, 6])
    passed = []

    def hook(name):
        if name != "after-import-window":
            return
        passed.append(name)
        if len(passed) == 1:
            with pytest.raises(KillError), monkeypatch.context() as patched:
                patched.setattr("deltasql.imports.load.tables.Importing.give_up", lambda *_: None)
                with deltasql.connect(catalog_uri) as other:
                    do_import(other, root, resume=True)
            if how == "is interrupted":
                raise KeyboardInterrupt
        elif len(passed) == 3:
            raise KillError

    expected = DeltaSqlError if how == "goes on" else KeyboardInterrupt
    with deltasql.connect(catalog_uri) as catalog:
        with hooked(hook), pytest.raises(expected):
            do_import(catalog, root)
        assert [one.name for one in catalog.unfinished_imports()] == ["t"]
        done = do_import(catalog, root, resume=True)
        assert files_of(catalog, done.row.table_id) == EVERY


def test_of_two_new_imports_one_is_refused(catalog_uri, tmp_path):
    """Both find no table, and both begin one."""
    root = write_log(tmp_path / "t", LOG)
    real, outcomes = Importing.begin, []
    both = threading.Barrier(2, timeout=60)

    def begin(self, new, first_version):
        both.wait()
        return real(self, new, first_version)

    def run():
        with deltasql.connect(catalog_uri) as catalog:
            try:
                outcomes.append(do_import(catalog, root).row.full_name)
            except DeltaSqlError as error:
                outcomes.append(type(error).__name__)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Importing, "begin", begin)
        with deltasql.connect(catalog_uri) as catalog:
            catalog.create_if_missing()
        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(outcomes) == ["TableExistsError", "t"]


@pytest.mark.usefixtures("kills")
@pytest.mark.parametrize("stops_at", [3, 6])
def test_a_run_that_waits_for_the_lock_sees_who_took_the_table_over(
    catalog_uri, tmp_path, monkeypatch, stops_at
):
    """A stops before a window (the 6th is the last); B takes the table over while A waits."""
    commits = [[add("f0")]] + [[remove(f"f{v - 1}", v), add(f"f{v}", v)] for v in range(1, 6)]
    root = write_log(tmp_path / "t", commits if stops_at == 3 else LOG)
    expected = ["f5"] if stops_at == 3 else EVERY
    cut_by(monkeypatch, [])
    a_stopped, b_has_lock = threading.Event(), threading.Event()
    windows = []
    found = {}

    def hook(name):
        who = threading.current_thread().name
        if who == "A" and name == "after-import-window":
            windows.append(name)
            if len(windows) == stops_at - 1:
                a_stopped.set()
                assert b_has_lock.wait(60)
        if who == "B" and name == "before-import-settled" and not b_has_lock.is_set():
            b_has_lock.set()
            time.sleep(1)  # as deleting very many rows takes: A waits for the lock meanwhile

    def run(**options):
        with deltasql.connect(catalog_uri) as catalog:
            try:
                found[threading.current_thread().name] = do_import(catalog, root, **options)
            except DeltaSqlError as error:
                found[threading.current_thread().name] = error

    with deltasql.connect(catalog_uri) as catalog:
        catalog.create_if_missing()
    with hooked(hook):
        first = threading.Thread(target=run, name="A", kwargs={"validate": False})
        first.start()
        assert a_stopped.wait(60)
        second = threading.Thread(target=run, name="B", kwargs={"resume": True})
        second.start()
        first.join(120)
        second.join(120)
    assert isinstance(found["A"], TableStateError), found
    assert found["B"].validation.is_equal
    with deltasql.connect(catalog_uri) as catalog:
        assert files_of(catalog, found["B"].row.table_id) == expected
