"""A disk without room, a real one: no torn file is taken for a commit, and room is enough."""

import shutil
import subprocess
import sys

import pytest

import deltasql
from builders import SCHEMA, rows
from deltasql.settings import MirrorSettings, Settings
from processes import PATHS

# The disk is a small one in a mount namespace of its own: it is gone with the process.
PROGRAM = """
import os, pathlib, sys
sys.path[:0] = sys.argv[2].split(os.pathsep)
from faults.test_disk_full import live_through
live_through(pathlib.Path(sys.argv[1]))
"""
WORKER = Settings(mirror=MirrorSettings(mode="worker", checkpoint_interval=2))


def live_through(place) -> None:
    """Fill the disk, commit, mirror; make room; everything arrives. Runs on the small disk."""
    from deltasql.testing.invariants import check_invariants

    uri = f"deltasql://sqlite/{place.parent}/c.db"
    log, ballast = place / "_delta_log", place / "ballast"
    with deltasql.connect(uri, settings=WORKER) as catalog:
        table = catalog.create_table("t", location=str(place), schema=SCHEMA)
        table.append(rows(1))
        catalog.mirror.run_once()
        before = sorted(file.name for file in log.iterdir())
        for number in range(2, 5):
            table.append(rows(number))
        fill(ballast)
        for _ in range(5):
            swept = catalog.mirror.run_once()
            assert (swept.mirrored, swept.failed) == (0, 1)
        assert sorted(file.name for file in log.iterdir()) == before
        status = catalog.mirror.status("t")
        assert (status["status"], status["retry_count"]) == ("FAILED", 5)
        assert "No space left" in status["error"]
        ballast.unlink()
        catalog.mirror.run_once()
        assert table.state == "active"
        check_invariants(catalog, "t")
        assert catalog.mirror.verify("t") == []


def fill(ballast) -> None:
    """Take every byte that there is."""
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


def has_mounts() -> bool:
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        return False
    trial = ["unshare", "-rm", "sh", "-c", "mount -t tmpfs none /mnt"]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not has_mounts(), reason="no mount namespaces for users here")
def test_a_full_disk_tears_nothing_and_heals_when_there_is_room(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "run.py").write_text(PROGRAM)
    inside = 'mount -t tmpfs -o size=256k none "$1" && exec "$2" "$3" "$1" "$4"'
    words = [str(disk), sys.executable, str(tmp_path / "run.py"), PATHS]
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", inside, "sh", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
