"""Stores for the tasks of an import that go wrong once; importable where Spark's workers run."""

import dataclasses
import os
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltasql.errors import StorageUnavailableError
from deltasql.storage.local import LocalStore

PATIENCE = 60.0


@dataclass(frozen=True)
class Opener:
    """Opens a table's folder; what goes wrong with each of its objects, once, is `kind`."""

    place: str
    marks: str
    kind: str

    def __call__(self) -> Any:
        """Open the store."""
        return _Once(LocalStore(self.place), Path(self.marks), self.kind)


@dataclass
class Through:
    """An engine whose tasks read by way of another store."""

    engine: Any
    opener: Opener
    name: str = "spark"

    def run(self, reader: Any, found: Iterable[Any]) -> Iterator[Any]:
        """Do the tasks."""
        return self.engine.run(dataclasses.replace(reader, open_store=self.opener), found)

    def close(self) -> None:
        """Let go of the engine."""
        self.engine.close()


class _Once:
    def __init__(self, store: LocalStore, marks: Path, kind: str) -> None:
        self._store, self._marks, self._kind = store, marks, kind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, key: str) -> bytes:
        name = key.rpartition("/")[2]
        if _mark(self._marks / name):
            said = getattr(self, self._kind)(name)
            return said or self._store.get(key)
        _mark(self._marks / f"{name}.again")
        return self._store.get(key)

    def unavailable(self, name: str) -> None:
        raise StorageUnavailableError(f"The store does not give {name} now.")

    def broken(self, name: str) -> None:
        raise RuntimeError(f"nobody knows what is wrong with {name}")

    def killed(self, name: str) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def executor(self, name: str) -> None:
        """Kill the JVM that runs the task; it is the parent of the worker's parent."""
        status = Path(f"/proc/{os.getppid()}/stat").read_text(encoding="utf-8")
        os.kill(int(status.rpartition(")")[2].split()[1]), signal.SIGKILL)

    def lost(self, name: str) -> bytes:
        """Wait until another attempt's rows are loaded, then read something else."""
        _mark(self._marks / f"{name}.slow")
        deadline = time.monotonic() + PATIENCE
        while not (self._marks / f"{name}.loaded").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return self._store.get(f"_delta_log/{name}").replace(b'"WRITE"', b'"WRONG"')

    def stuck(self, name: str) -> None:
        """Wait until somebody has had enough."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            time.sleep(0.02)


def _mark(path: Path) -> bool:
    """Tell whether this is the first time, whoever asks; without a folder it always is."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    except FileNotFoundError:
        pass
    return True
