"""Find the Delta tables below a root, looking at folders rather than at all that lies in them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from deltasql.protocol.files import LOG_FOLDER, LogFile, LogFileKind
from deltasql.storage.port import ObjectStore

_AT_ONCE = 8
_TELLING = frozenset(
    {LogFileKind.COMMIT, LogFileKind.CHECKPOINT, LogFileKind.MULTIPART, LogFileKind.V2}
)


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A folder with a `_delta_log`; without a version in it, it is no table."""

    folder: str
    has_version: bool


@dataclass(frozen=True, slots=True)
class _Folder:
    has_log: bool
    has_version: bool
    below: tuple[str, ...]


def find_logs(store: ObjectStore) -> Iterator[FoundLog]:
    """Yield every folder below the store's root that holds a Delta log, outer ones first.

    A folder is told without a slash at its end; the root itself is "". Tables inside of tables are
    found too, but the folders of partitions, and those that Delta hides, are not entered: a lake's
    data files are never listed one by one.

    Raises:
        StorageError: a folder cannot be listed; what lies in it is not silently passed over.
    """
    level: list[str] = [""]
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="find-tables") as pool:
        while level:
            below: list[str] = []
            looks = pool.map(lambda folder: _look(store, folder), level)
            for folder, seen in zip(level, looks, strict=True):
                if seen.has_log:
                    yield FoundLog(folder.rstrip("/"), seen.has_version)
                below += seen.below
            level = below


def _look(store: ObjectStore, folder: str) -> _Folder:
    inside = store.folders(folder)
    log = folder + LOG_FOLDER
    has_log = log in inside
    is_table = has_log and _has_version(store, log)
    names = ((sub, sub.removeprefix(folder)) for sub in inside if sub != log)
    below = tuple(sub for sub, name in names if not is_table or not _holds_data(name))
    return _Folder(has_log, is_table, below)


def _has_version(store: ObjectStore, log: str) -> bool:
    for info in store.list_from(log):
        parsed = LogFile.parse(info.key.removeprefix(log))
        if parsed is not None and parsed.kind in _TELLING:
            return True
    return False


def _holds_data(name: str) -> bool:
    """Tell whether a folder of a table is one of its own: a partition, or hidden."""
    return "=" in name or name.startswith(("_", "."))
