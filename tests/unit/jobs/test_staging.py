"""What a task leaves in a folder is taken once and whole, and no folder outlives its run."""

import subprocess
import sys

import pytest

from deltasql.jobs.staging import FolderStaging, StageGoneError


def test_what_an_attempt_left_is_taken_once(tmp_path):
    with FolderStaging(tmp_path).open() as stage:
        first = stage.for_tasks.put(3, 11, b"first")
        second = stage.for_tasks.put(3, 12, b"second")
        assert stage.take(second) == b"second"
        assert stage.take(first) == b"first"
        with pytest.raises(StageGoneError, match="task 3"):
            stage.take(first)


@pytest.mark.parametrize("left", [b"", b"sho", b"other"])
def test_what_is_not_whole_is_not_taken(tmp_path, left):
    with FolderStaging(tmp_path).open() as stage:
        staged = stage.for_tasks.put(0, 1, b"whole")
        (path,) = tmp_path.glob("deltasql-import-*/*.rows")
        path.write_bytes(left)
        with pytest.raises(StageGoneError, match="missing"):
            stage.take(staged)


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_is_left_behind(tmp_path, fails):
    def run():
        with FolderStaging(tmp_path).open() as stage:
            stage.for_tasks.put(0, 1, b"never taken")
            if fails:
                raise KeyError
            return stage

    if fails:
        with pytest.raises(KeyError):
            run()
    else:
        with pytest.raises(StageGoneError):
            run().for_tasks.put(1, 2, b"too late")
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_run_is_removed_and_that_of_a_living_one_stays(tmp_path):
    program = (
        "import os, signal\nfrom pathlib import Path\n"
        "from deltasql.jobs.staging import FolderStaging\n"
        f"with FolderStaging(Path({str(tmp_path)!r})).open() as stage:\n"
        "    stage.for_tasks.put(0, 1, b'lost')\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=False)
    (dead,) = tmp_path.iterdir()
    with FolderStaging(tmp_path).open() as living, FolderStaging(tmp_path).open() as another:
        assert not dead.exists()
        staged = living.for_tasks.put(0, 1, b"mine")
        another.for_tasks.put(0, 1, b"yours")
        FolderStaging(tmp_path).sweep()
        assert living.take(staged) == b"mine"


def test_only_this_user_may_look_into_the_folder(tmp_path):
    with FolderStaging(tmp_path).open() as stage:
        stage.for_tasks.put(0, 1, b"rows")
        (folder,) = tmp_path.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
