"""Where Spark's writer puts files: a folder of the table itself, or one on this machine whose
files are then sent to the table's store.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deltasql.storage.durable import sync_directory
from deltasql.storage.port import ObjectStore

# Where tasks write until they are done; one that came too late may have left something.
_UNFINISHED = "_temporary"
_PIECE = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class OutputFolder:
    """A folder of this machine, named like the folder of the table that its files belong to."""

    path: Path
    key: str
    store: ObjectStore
    is_inside: bool

    @property
    def uri(self) -> str:
        """The folder as Hadoop wants it: a scheme, and the path as it is."""
        return f"file:{self.path}"

    def files(self) -> list[Path]:
        """Return the data files in it, sorted; hidden names and unfinished files are no data."""
        return sorted(file for file in self.path.rglob("*.parquet") if self._is_data(file))

    def _is_data(self, file: Path) -> bool:
        is_finished = file.relative_to(self.path).parts[0] != _UNFINISHED
        return is_finished and not file.name.startswith((".", "_")) and file.is_file()

    def key_of(self, file: Path) -> str:
        """Return the key of a file in the table's store."""
        return f"{self.key}/{file.relative_to(self.path).as_posix()}"

    def keep(self, files: list[Path]) -> None:
        """Make files durable parts of the table, before any commit names them."""
        if not self.is_inside:
            for file in files:
                self._send(file)
            return
        for file in files:
            _sync(file)
        folders = {above for file in files for above in file.parents if above >= self.path}
        for folder in sorted(folders | {self.path.parent}):
            sync_directory(folder)

    def _send(self, file: Path) -> None:
        with file.open("rb") as source, self.store.open_output(self.key_of(file)) as sink:
            shutil.copyfileobj(source, sink, _PIECE)


@contextmanager
def open_folder(store: ObjectStore, name: str) -> Iterator[OutputFolder]:
    """Give a folder that no other write uses; what a failed write has left in it is deleted."""
    inside = store.local_path(name)
    if inside is None:
        with tempfile.TemporaryDirectory(prefix="deltasql-write-") as place:
            yield OutputFolder(Path(place) / name, name, store, is_inside=False)
        return
    folder = OutputFolder(Path(inside), name, store, is_inside=True)
    try:
        yield folder
    except BaseException:
        # no commit names it: the caller learns of no file before this block has ended well
        shutil.rmtree(folder.path, ignore_errors=True)
        raise


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
