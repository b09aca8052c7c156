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
class _Folder:
    is_table: bool
    below: tuple[str, ...]


def find_tables(store: ObjectStore) -> Iterator[str]:
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
                if seen.is_table:
                    yield folder.rstrip("/")
                below += seen.below
            level = below


def _look(store: ObjectStore, folder: str) -> _Folder:
    inside = store.folders(folder)
    log = folder + LOG_FOLDER
    is_table = log in inside and _has_version(store, log)
    names = ((sub, sub.removeprefix(folder)) for sub in inside if sub != log)
    return _Folder(
        is_table, tuple(sub for sub, name in names if not is_table or not _holds_data(name))
    )


def _has_version(store: ObjectStore, log: str) -> bool:
    for info in store.list_from(log):
        parsed = LogFile.parse(info.key.removeprefix(log))
        if parsed is not None and parsed.kind in _TELLING:
            return True
    return False


def _holds_data(name: str) -> bool:
    """Tell whether a folder of a table is one of its own: a partition, or hidden."""
    return "=" in name or name.startswith(("_", "."))
