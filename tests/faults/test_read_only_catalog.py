"""Who may not write to a SQLite catalog reads it, leaves nothing behind, and is refused to write.

Root may do everything, so that these tests become another user, or mount the folder read-only.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

import deltasql
import processes
from builders import NO_MIRROR, a_table, rows
from deltasql.testing.invariants import check_invariants

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def folder():
    """A folder that every user may enter; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        (Path(name) / "databases").mkdir(mode=0o755)
        (Path(name) / "lake").mkdir(mode=0o755)
        yield Path(name)


@pytest.fixture
def uri(folder):
    """A catalog with a table of two versions, closed."""
    uri = f"deltasql://sqlite/{folder}/databases/catalog.db"
    with deltasql.connect(uri) as catalog:
        a_table(catalog, folder / "lake").append(rows(1, 2))
    for path in (folder / "lake").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return uri


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "databases").iterdir()}


def _keep(folder: Path, *sides: str) -> None:
    """Leave these files of the catalog only."""
    names = {f"catalog.db{side}" for side in sides}
    for path in (folder / "databases").iterdir():
        if path.name not in names:
            path.unlink()
    assert {path.name for path in (folder / "databases").iterdir()} == names


def _leave_as_killed(uri: str, folder: Path, *sides: str) -> None:
    """Append, and leave these files as a writer would that was killed then."""
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        catalog.table("orders").append(rows(3))
        saved = _files(folder)
    assert saved["catalog.db-wal"]
    _keep(folder)
    for side in sides:
        name = f"catalog.db{side}"
        (folder / "databases" / name).write_bytes(saved[name])


SIDES = {
    "all": ("", "-wal", "-shm", "-lock"),
    "no lock": ("", "-wal", "-shm"),
    "no index": ("", "-wal", "-lock"),
    "database alone": ("",),
}
EXPECTED = {"tables": ["orders"], "ids": [1, 2], "history": [1, 0], "code": "DS306"}


def _as_nobody(uri: str) -> dict:
    return processes.finish(processes.start("look_as_nobody", uri))


@pytest.mark.parametrize("sides", SIDES.values(), ids=SIDES.keys())
@pytest.mark.parametrize("mode", [0o755, 0o777], ids=["closed folder", "open folder"])
def test_a_user_without_the_right_to_write_reads(uri, folder, sides, mode):
    _keep(folder, *sides)
    (folder / "databases").chmod(mode)
    before = _files(folder)
    found = _as_nobody(uri)
    assert "may not write" in found.pop("message")
    assert found == EXPECTED
    assert _files(folder) == before
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:  # nobody is shut out behind it
        catalog.table("orders").append(rows(3))
        check_invariants(catalog, "orders")


def test_a_rollback_database_is_read_without_the_right_to_change_its_mode(uri, folder):
    databases = folder / "databases"
    copy = databases / "backup.db"
    with closing(sqlite3.connect(databases / "catalog.db")) as database:
        database.execute("vacuum into ?", [str(copy)])
    for path in databases.glob("catalog.db*"):
        path.unlink()
    before = _files(folder)
    found = _as_nobody(f"deltasql://sqlite/{copy}")
    del found["message"]
    assert found == EXPECTED
    assert _files(folder) == before


def test_a_log_that_cannot_be_read_is_an_error_and_not_an_older_state(uri, folder):
    """Without its index the log of a killed writer is unreadable; its commits are not left out."""
    _leave_as_killed(uri, folder, "", "-wal")
    found = _as_nobody(uri)
    assert found["code"] == "DS306"
    assert "catalog.db-wal is not empty" in found["message"]
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        assert catalog.table("orders").version == 2


def test_a_reader_without_rights_sees_the_commits_of_a_writer(uri, folder):
    """It opens the file before the writer does, and reads it again while and after it writes."""
    _keep(folder, "")
    reader = processes.start("follow_as_nobody", uri, stdin=subprocess.PIPE)
    assert json.loads(reader.stdout.readline()) == [1, 2]
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        catalog.table("orders").append(rows(3))
        print(file=reader.stdin, flush=True)
        assert json.loads(reader.stdout.readline()) == [1, 2, 3]
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        catalog.table("orders").append(rows(4))
    print(file=reader.stdin, flush=True)
    assert json.loads(reader.stdout.readline()) == [1, 2, 3, 4]
    _, err = reader.communicate(timeout=60)
    assert reader.returncode == 0, err


def test_a_reader_without_rights_waits_for_a_writer_that_opens_the_catalog(uri, folder):
    """A killed writer has left a log; the next one makes its index, which the reader may not."""
    _leave_as_killed(uri, folder, "", "-wal", "-shm", "-lock")
    writer = processes.start("open_slowly", uri, stdin=subprocess.PIPE)
    assert writer.stdout.readline()
    assert not (folder / "databases" / "catalog.db-shm").stat().st_size
    reader = processes.start("look_as_nobody", uri)
    with pytest.raises(subprocess.TimeoutExpired):
        reader.wait(timeout=4)  # to start takes one
    print(file=writer.stdin, flush=True)
    found = processes.finish(reader)
    del found["message"]
    assert found == {**EXPECTED, "ids": [1, 2, 3], "history": [2, 1, 0]}
    assert processes.finish(writer) == 2


@pytest.mark.parametrize("sides", SIDES.values(), ids=SIDES.keys())
def test_a_read_only_file_system_is_read(uri, folder, sides):
    _keep(folder, *sides)
    mount = folder / "mount"
    mount.mkdir()
    before = _files(folder)
    script = 'mount --bind "$1" "$2" && mount -o remount,ro,bind "$2" && shift 2 && exec "$@"'
    command = [
        sys.executable,
        str(processes.WORKERS),
        "look",
        f"deltasql://sqlite/{mount}/catalog.db",
    ]
    done = subprocess.run(
        [
            "unshare",
            "-m",
            "sh",
            "-c",
            script,
            "sh",
            str(folder / "databases"),
            str(mount),
            *command,
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": processes.PATHS},
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no read-only mount here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert "file system is read-only" in found.pop("message")
    assert found == EXPECTED
    assert _files(folder) == before


def test_an_unreadable_file_is_an_error(uri, folder):
    (folder / "databases" / "catalog.db").chmod(0o600)
    found = _as_nobody(uri)
    assert found["code"] == "DS311"
    assert "may not open the catalog database" in found["message"]


def test_a_folder_that_cannot_be_entered_is_an_error(uri, folder):
    (folder / "databases").chmod(0o700)
    found = _as_nobody(uri)
    assert found["code"] == "DS311"
    assert "may not open the catalog database" in found["message"]
    shutil.rmtree(folder / "databases")
