"""All tables below a root, one after the other: a bad one does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from deltasql.catalog.copies import COPIES
from deltasql.catalog.rows import TableRow
from deltasql.client.import_names import colliding, lake_names
from deltasql.client.imports import ImportOptions
from deltasql.errors import (
    CatalogUnavailableError,
    DeltaSqlError,
    ObjectNotFoundError,
    TableExistsError,
    TableImportError,
)
from deltasql.importer.discover import find_logs
from deltasql.runtime.connection import Connection
from deltasql.storage.location import canonical_location, quote_path

T = TypeVar("T")


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
