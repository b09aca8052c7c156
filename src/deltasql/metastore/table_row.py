"""Rows of dl_tables as values; new rows and rows of settings."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import msgspec

from deltasql.database.port import DbTransaction
from deltasql.errors import BadArgumentError
from deltasql.protocol.actions import Action, Metadata
from deltasql.protocol.codec import dump_values
from deltasql.protocol.properties import is_setting

# In a dropped table's properties: when it was dropped, and which state it had.
DROPPED_AT = "deltasql.droppedAt"
DROPPED_STATE = "deltasql.droppedState"


class TableState(enum.StrEnum):
    """What may be done with a table now."""

    IMPORTING = "importing"
    READ_ONLY = "read_only"
    ACTIVE = "active"
    CONFLICT = "conflict"
    DETACHED = "detached"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of dl_tables; a field for each column that is read, of the same name.

    Versions below `history_floor` were forgotten. The log of a table with `mirror_paused` is not
    written until an operator resumes it. `partitions_emptied` is the newest version that took the
    last file of a combination of partition values. A table with `is_purged` was dropped with its
    files: what is at its location is not its own.
    """

    table_key: int
    table_id: str
    namespace: str
    name: str
    location: str
    location_key: str
    created_at: int
    current_version: int
    last_ict: int
    metadata_version: int
    protocol_version: int
    state: TableState
    first_version: int
    mirrored_through: int
    log_floor: int
    properties: dict[str, Any]
    is_vacuuming: bool = False
    is_purged: bool = False
    history_floor: int = 0
    mirror_paused: bool = False
    partitions_emptied: int = -1

    @property
    def oldest_version(self) -> int:
        """The oldest version that the catalog still has."""
        return max(self.first_version, self.history_floor)

    @property
    def dropped_at(self) -> int | None:
        """When the table was dropped, in milliseconds; None where that is not known."""
        found = self.properties.get(DROPPED_AT)
        return None if found is None else int(found)

    @property
    def state_before_drop(self) -> TableState | None:
        """The state to bring a dropped table back to.

        None where its rows are not complete: a new import has replaced it, it was purged, or a
        version of deltasql has dropped it that did not write this down.
        """
        found = self.properties.get(DROPPED_STATE)
        return None if found is None or self.is_purged else TableState(found)

    @property
    def full_name(self) -> str:
        """The name users write: `name`, or `namespace.name`."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class LockedTable:
    """A table under its row lock, with its epoch and the clock; `now` is 0 where SQL has none."""

    row: TableRow
    epoch: int
    now: int


@dataclass(frozen=True, slots=True)
class CatalogRow:
    """The catalog's own identity."""

    catalog_id: str
    epoch: int
    created_at: int


TABLE_FIELDS = tuple(one.name for one in fields(TableRow))
_CONVERTERS: tuple[tuple[int, Callable[[Any], Any]], ...] = (
    (TABLE_FIELDS.index("table_id"), str),
    (TABLE_FIELDS.index("state"), TableState),
    (TABLE_FIELDS.index("properties"), msgspec.json.decode),
    (TABLE_FIELDS.index("is_vacuuming"), bool),
    (TABLE_FIELDS.index("is_purged"), bool),
    (TABLE_FIELDS.index("mirror_paused"), bool),
)


def table_row(values: Sequence[Any]) -> TableRow:
    """Return a row that begins with the `{table_columns}` of a query as a value."""
    found = list(values[: len(TABLE_FIELDS)])
    for place, convert in _CONVERTERS:
        found[place] = convert(found[place])
    return TableRow(*found)


def locked_table(values: Sequence[Any]) -> LockedTable:
    """Return a row of the query `lock_table` as a value."""
    *columns, epoch, now = values
    return LockedTable(table_row(columns), int(epoch), int(now))


def split_name(full_name: str) -> tuple[str, str]:
    """Return (namespace, name) of a table's full name; the last dot divides them."""
    if not isinstance(full_name, str):
        raise BadArgumentError(f"{full_name!r} is not the name of a table.")
    namespace, _, name = full_name.rpartition(".")
    return (namespace, name) if namespace else ("", full_name)


def keep_settings(tx: DbTransaction, actions: Sequence[Action], row: TableRow) -> None:
    """Inside a commit: make the row's settings those of the metadata it brings, if it does."""
    metadata = next((a for a in actions if isinstance(a, Metadata)), None)
    if metadata is None:
        return
    wanted = with_settings(row.properties, metadata)
    if wanted != row.properties:
        tx.execute("set_properties", table_id=row.table_id, properties=dump_values(wanted))


def with_settings(properties: dict[str, Any], metadata: Metadata) -> dict[str, Any]:
    """Return a row's properties with the settings of this metadata in place of older ones."""
    kept = {key: value for key, value in properties.items() if not is_setting(key)}
    return kept | {key: value for key, value in metadata.configuration.items() if is_setting(key)}


@dataclass(frozen=True, slots=True)
class NewTable:
    """The row of a table that a commit creates; its version is the first."""

    table_id: str
    namespace: str
    name: str
    location: str
    location_key: str
    properties: str = "{}"


def insert_table(
    tx: DbTransaction,
    create: NewTable,
    *,
    state: TableState = TableState.ACTIVE,
    first_version: int = 0,
) -> None:
    """Register a table; its log begins where its versions do."""
    tx.execute(
        "insert_table",
        table_id=create.table_id,
        namespace=create.namespace,
        name=create.name,
        location=create.location,
        location_key=create.location_key,
        created_at=tx.now_ms(),
        last_ict=0,
        state=str(state),
        first_version=first_version,
        mirrored_through=first_version - 1,
        log_floor=first_version,
        properties=create.properties,
    )
