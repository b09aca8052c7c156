"""Import every Delta table below a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from deltasql.errors import (
    CatalogUnavailableError,
    DeltaSqlError,
    ObjectNotFoundError,
    TableExistsError,
    TableImportError,
)
from deltasql.imports.job import ImportOptions
from deltasql.imports.target import colliding, lake_names
from deltasql.metastore.log_state import COPIES
from deltasql.metastore.table_row import TableRow
from deltasql.protocol.log_names import LOG_FOLDER, LogFile, LogFileKind
from deltasql.runtime.connection import Connection
from deltasql.storage.location import canonical_location, quote_path
from deltasql.storage.port import ObjectStore

_AT_ONCE = 8
_TELLING = frozenset(
    {LogFileKind.COMMIT, LogFileKind.CHECKPOINT, LogFileKind.MULTIPART, LogFileKind.V2}
)

T = TypeVar("T")


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


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A table that was found below a root: its folder there, its place, its name to be."""

    folder: str
    source: str
    name: str


@dataclass(frozen=True, slots=True)
class LakeOutcome(Generic[T]):
    """What became of one table: a result, or the error that it met."""

    table: LakeTable
    result: T | None
    error: DeltaSqlError | None = None


@dataclass(frozen=True, slots=True)
class Lake:
    """What lies below a root: its tables, and the folders whose log holds no commit."""

    tables: list[LakeTable]
    without_commit: list[str]


def look_below(connection: Connection, root: str) -> Lake:
    """Return every Delta table below a root, in the order of their folders.

    Raises:
        ObjectNotFoundError: there is none.
    """
    place = canonical_location(root)
    logs = sorted(find_logs(connection.store_at(place)), key=lambda log: log.folder)
    folders = [log.folder for log in logs if log.has_version]
    empty = [log.folder for log in logs if not log.has_version]
    if not folders:
        named = f" The log of {', '.join(map(repr, empty))} holds no commit." if empty else ""
        raise ObjectNotFoundError(
            f"There is no Delta table below {place}.{named}",
            hint="Name the folder above the tables; check how it is spelled.",
        )
    names = lake_names(root, folders)
    tables = [LakeTable(folder, _below(place, folder), names[folder]) for folder in folders]
    return Lake(tables, empty)


def each_table(
    tables: Sequence[LakeTable], do: Callable[[LakeTable], T]
) -> Iterator[LakeOutcome[T]]:
    """Do something with each table and yield what became of it, errors too.

    Where the catalog itself is gone, no further table is tried.
    """
    twice = colliding({table.folder: table.name for table in tables})
    gone: DeltaSqlError | None = None
    for table in tables:
        if gone is not None:
            yield LakeOutcome(table, None, gone)
            continue
        outcome = _attempt(table, twice, do)
        gone = outcome.error if isinstance(outcome.error, CatalogUnavailableError) else None
        yield outcome


def options_in_lake(found: TableRow | None, options: ImportOptions) -> ImportOptions:
    """Return the options for one table of a lake: to go on with all of it brings new tables too."""
    return replace(options, resume=False) if options.resume and found is None else options


def is_past_import(found: TableRow | None, options: ImportOptions) -> bool:
    """Tell whether there is nothing to go on with, because SQL writes the table's log itself."""
    return options.resume and found is not None and found.state not in COPIES


def _attempt(
    table: LakeTable, twice: Mapping[str, list[str]], do: Callable[[LakeTable], T]
) -> LakeOutcome[T]:
    try:
        if table.name in twice:
            raise _collision(table, twice[table.name])  # noqa: TRY301 (told as the others are)
        return LakeOutcome(table, do(table))
    except DeltaSqlError as error:
        return LakeOutcome(table, None, error)
    except Exception as error:  # noqa: BLE001 (a fault that one table provokes is that table's)
        told = TableImportError(
            f"Something failed that deltasql did not expect: {type(error).__name__}.",
            hint="Import this table alone, and report the traceback of that.",
        )
        told.__cause__ = error
        return LakeOutcome(table, None, told)


def _collision(table: LakeTable, folders: Sequence[str]) -> TableExistsError:
    others = ", ".join(repr(folder) for folder in folders if folder != table.folder)
    return TableExistsError(
        f"The folders {table.folder!r} and {others} would both be called {table.name}.",
        hint="Import each of them alone, with a `name=` of its own.",
        table=table.name,
    )


def _below(place: str, folder: str) -> str:
    return f"{place.rstrip('/')}/{quote_path(folder)}" if folder else place
