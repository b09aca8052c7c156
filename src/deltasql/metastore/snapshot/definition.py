"""What a table is at a version: protocol, metadata and indexed columns, read once per change."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from deltasql.database.port import BulkTransaction, DbTransaction
from deltasql.errors import CatalogCorruptError
from deltasql.forks import start_afresh_after_fork
from deltasql.metastore.stats_index import (
    StatsColumn,
    index_kind,
    load_columns,
    plan_columns,
    read_columns,
)
from deltasql.metastore.table_row import TableRow
from deltasql.protocol.actions import Action, Metadata, Protocol
from deltasql.protocol.codec import decode_commit
from deltasql.protocol.properties import read_bool
from deltasql.protocol.schema.columns import Leaf, leaves, mapping_mode
from deltasql.protocol.schema.types import parse_schema

_MOST = 10_000


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table's rules, good until its next metadata or protocol change."""

    protocol: Protocol
    metadata: Metadata
    indexed: tuple[tuple[StatsColumn, Leaf], ...]

    @property
    def has_in_commit_timestamps(self) -> bool:
        """Tell whether commits carry their own time."""
        return read_bool(self.metadata.configuration, "delta.enableInCommitTimestamps")


@dataclass(slots=True, weakref_slot=True)
class DefinitionCache:
    """Definitions by table and by the versions of their last changes, which never change again."""

    _found: dict[tuple[str, int, int], TableDefinition] = field(default_factory=dict)
    _partitions: dict[str, tuple[int, set[str]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        start_afresh_after_fork(self)

    def start_afresh(self) -> None:
        """Take a lock that no thread of the parent holds."""
        self._lock = threading.Lock()

    def load(self, tx: DbTransaction, row: TableRow) -> TableDefinition:
        """Return the definition of a table at its current version."""
        found = self.find(row)
        if found is None:
            found = load_definition(tx, row.table_id, row.current_version)
            with self._lock:
                if len(self._found) >= _MOST:
                    self._found.clear()
                self._found[_key(row)] = found
        return found

    def find(self, row: TableRow) -> TableDefinition | None:
        """Return the definition if it was loaded before."""
        with self._lock:
            return self._found.get(_key(row))

    def new_partitions(self, row: TableRow, texts: set[str]) -> list[str]:
        """Return the combinations of partition values that SQL may not have, or have as empty.

        What is known ends with the next commit that empties a combination, which the table's row
        tells: a commit must look at the row that it has locked.
        """
        with self._lock:
            return sorted(texts - self._known(row))

    def note_partitions(self, row: TableRow, texts: Sequence[str]) -> None:
        """Remember combinations that a commit has written; `row` is what it locked."""
        if not texts:
            return
        with self._lock:
            known = self._known(row)
            if len(known) < _MOST:
                self._partitions[row.table_id] = (row.partitions_emptied, known.union(texts))

    def _known(self, row: TableRow) -> set[str]:
        emptied, known = self._partitions.get(row.table_id, (-1, set()))
        return known if emptied == row.partitions_emptied else set()


def _key(row: TableRow) -> tuple[str, int, int]:
    return row.table_id, row.metadata_version, row.protocol_version


def load_definition(tx: DbTransaction, table_id: str, version: int) -> TableDefinition:
    """Return what a table was at a version.

    Raises:
        CatalogCorruptError: the catalog has no protocol or metadata for it.
    """
    place = {"table_id": table_id, "version": version}
    asked = [tx.fetch_later(name, **place) for name in ("protocol_at", "metadata_at")]
    stats = tx.fetch_later("stats_columns", table_id=table_id)
    protocol, metadata = (_action(rows()) for rows in asked)
    if not isinstance(protocol, Protocol) or not isinstance(metadata, Metadata):
        raise CatalogCorruptError(f"Table {table_id} has no protocol or metadata at {version}.")
    columns = [column for column in read_columns(stats()) if column.covers(version)]
    return TableDefinition(protocol, metadata, pair_leaves(columns, metadata))


def pair_leaves(
    columns: Sequence[StatsColumn], metadata: Metadata
) -> tuple[tuple[StatsColumn, Leaf], ...]:
    """Return the indexed columns with their places in the schema."""
    mode = mapping_mode(metadata.configuration)
    by_name = {
        leaf.physical[0]: leaf
        for leaf in leaves(parse_schema(metadata.schema_string), mode)
        if len(leaf.physical) == 1
    }
    return tuple((column, by_name[column.name]) for column in columns if column.name in by_name)


def change_indexed_columns(
    tx: DbTransaction | BulkTransaction,
    table_id: str,
    version: int,
    metadata: Metadata,
    wanted: Sequence[Leaf],
) -> tuple[tuple[StatsColumn, Leaf], ...]:
    """Open and close indexed columns as new metadata demands, inside its commit."""
    existing = load_columns(tx, table_id)
    close, open_ = plan_columns(existing, wanted)
    for column in close:
        tx.execute("close_stats_column", stats_key=column.stats_key, version=version)
    opened = open_columns(tx, table_id, version, open_)
    kept = [c for c in existing if c.until_version is None and c not in close]
    return pair_leaves([*kept, *opened], metadata)


def open_columns(
    tx: DbTransaction | BulkTransaction, table_id: str, version: int, columns: Sequence[Leaf]
) -> list[StatsColumn]:
    """Index columns from a version on."""
    if not columns:
        return []
    end = tx.fetch_all("take_ids", name="stats_key", amount=len(columns))[0][0]
    opened = []
    for key, leaf in zip(range(end - len(columns), end), columns, strict=True):
        kind = index_kind(leaf)
        assert kind is not None  # noqa: S101 (only indexable columns are wanted)
        column = StatsColumn(key, leaf.physical[0], leaf.type.name, kind, version, None)
        tx.execute(
            "open_stats_column",
            stats_key=key,
            table_id=table_id,
            column_name=column.name,
            column_type=column.type,
            kind=kind,
            since_version=version,
        )
        opened.append(column)
    return opened


def _action(rows: list[tuple[object, ...]]) -> Action | None:
    if not rows:
        return None
    return decode_commit(str(rows[0][1]).encode(), version=int(str(rows[0][0])), lenient=True)[0]
