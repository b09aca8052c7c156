"""Where tasks leave their rows for the driver: the port, and a folder that both can see.

What one attempt of one task leaves is kept under (import, task, attempt); the driver takes the
attempt that Spark says has counted, once, and checks that all of it is there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from deltasql.errors import TableImportError
from deltasql.importer.packing import Packed

_PREFIX = "deltasql-import-"
_LOCK = "lock"


class StageGoneError(TableImportError):
    """What a task had left is no longer there; the task is to be done again."""


@dataclass(frozen=True, slots=True)
class Staged:
    """What an attempt left, so small that it may travel through Spark."""

    task: int
    attempt: int
    bytes: int
    digest: str


class TaskStage(Protocol):
    """The side of a stage that travels to the tasks."""

    def put(self, task: int, attempt: int, packed: bytes) -> Staged:
        """Leave the rows of an attempt.

        Raises:
            StageGoneError: the stage is not open.
        """


class Stage(Protocol):
    """The stage of one run, as the driver sees it."""

    @property
    def for_tasks(self) -> TaskStage:
        """What the tasks get; it can be pickled."""

    def take(self, staged: Staged) -> Packed:
        """Return what an attempt left, whole, and forget it.

        Raises:
            StageGoneError: it is not all there.
        """

    def reopen(self) -> None:
        """Make the stage ready again after its keeper has lost it."""


class Staging(Protocol):
    """Opens a stage for each run."""

    def open(self) -> AbstractContextManager[Stage]:
        """Open a stage that is empty; nothing of it is left afterwards."""


def require_whole(packed: Packed, staged: Staged) -> None:
    """Compare bytes with what their task said of them.

    Raises:
        StageGoneError: they are others, or not all of them.
    """
    if len(memoryview(packed)) != staged.bytes or digest_of(packed) != staged.digest:
        raise StageGoneError(
            f"Of the rows that task {staged.task} left, some are missing.", task=staged.task
        )


def digest_of(packed: Packed) -> str:
    """Return the digest by which a task's rows are known again."""
    return hashlib.sha256(packed).hexdigest()


@dataclass(frozen=True, slots=True)
class FolderTaskStage:
    """A folder, as a task sees it."""

    folder: str

    def put(self, task: int, attempt: int, packed: bytes) -> Staged:
        """Write one file; it gets its name when it is whole."""
        place = _file(self.folder, task, attempt)
        try:
            place.with_suffix(".part").write_bytes(packed)
            place.with_suffix(".part").rename(place)
        except FileNotFoundError as error:
            raise StageGoneError(f"The folder for task {task} is gone.", task=task) from error
        return Staged(task, attempt, len(packed), digest_of(packed))


@dataclass(frozen=True, slots=True)
class FolderStage:
    """A folder, as the driver sees it."""

    folder: str

    @property
    def for_tasks(self) -> FolderTaskStage:
        """What the tasks get."""
        return FolderTaskStage(self.folder)

    def take(self, staged: Staged) -> Packed:
        """Read the file of an attempt and delete it."""
        place = _file(self.folder, staged.task, staged.attempt)
        try:
            packed = place.read_bytes()
        except FileNotFoundError as error:
            raise StageGoneError(
                f"The rows that task {staged.task} left are gone.", task=staged.task
            ) from error
        require_whole(packed, staged)
        place.unlink(missing_ok=True)
        return packed

    def reopen(self) -> None:
        """Make the folder again if somebody has removed it."""
        Path(self.folder).mkdir(mode=0o700, exist_ok=True)


@dataclass(frozen=True, slots=True)
class FolderStaging:
    """Stages in folders below one that driver and tasks share: for Spark on this machine."""

    root: Path

    @classmethod
    def temporary(cls) -> FolderStaging:
        """Stage in the system's place for temporary files."""
        return cls(Path(tempfile.gettempdir()))

    @contextmanager
    def open(self) -> Iterator[FolderStage]:
        """Open a new folder; those that killed runs have left are removed first."""
        self.sweep()
        new = self.root / f".{_PREFIX}{uuid.uuid4()}"
        new.mkdir(mode=0o700)
        lock = os.open(new / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        # locked before it has the name by which others look for folders that nobody holds
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = new.rename(self.root / new.name.removeprefix("."))
        try:
            yield FolderStage(str(folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)

    def sweep(self) -> None:
        """Remove the folders of runs that live no more."""
        for folder in self.root.glob(f"{_PREFIX}*"):
            if not _is_held(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _file(folder: str, task: int, attempt: int) -> Path:
    return Path(folder) / f"{task}-{attempt}.rows"


def _is_held(folder: Path) -> bool:
    try:
        with (folder / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:  # its removal was cut short
        return False
    except OSError:
        return True
    return False
