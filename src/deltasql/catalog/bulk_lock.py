"""On which terms a table takes versions of its log, and its row, locked for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from deltasql.catalog.database import BulkWork
from deltasql.catalog.rows import TableState
from deltasql.errors import TableStateError


@dataclass(frozen=True, slots=True)
class LoadTerms:
    """In which states a table takes versions of its log, and as whose they are kept."""

    states: tuple[TableState, ...]
    origin: str
    verb: str
    hint: str

    @property
    def is_import(self) -> bool:
        """Whether the table is still the log's: nobody commits to it in SQL."""
        return self.origin == "import"


IMPORTED = LoadTerms(
    (TableState.IMPORTING, TableState.READ_ONLY),
    "import",
    "imported",
    "Another import of it may be at work; see `deltasql show`.",
)
ADOPTED = LoadTerms(
    (TableState.ACTIVE, TableState.CONFLICT),
    "adopted",
    "adopted",
    "Somebody else may have committed or repaired meanwhile; look at it again.",
)
# the commit by which a cut-over has won the log
CLAIMED = LoadTerms(
    (TableState.READ_ONLY,), "commit", "taken over", "Another cut-over of it may be at work."
)


@dataclass(frozen=True, slots=True)
class ImportLock:
    """A table that is being loaded, as the transaction found it.

    `segment` is the marker of the segment whose windows are being loaded, or were when their
    importer ended. `checkpoint_parts` parts of the state in `checkpoint` are in.
    """

    table_id: str
    table_key: int
    current_version: int
    first_version: int
    last_ict: int
    state: TableState
    properties: dict[str, Any]
    full_name: str
    segment: str | None
    checkpoint: str | None
    checkpoint_parts: int

    @property
    def next_version(self) -> int:
        """The version that must come now."""
        return max(self.current_version + 1, self.first_version)

    @property
    def has_versions(self) -> bool:
        """Whether there are versions from before what is loaded now."""
        return self.current_version >= self.first_version


def lock_import(
    work: BulkWork, table_id: str, version: int, terms: LoadTerms = IMPORTED
) -> ImportLock:
    """Lock a table whose next version must be this one.

    Raises:
        TableStateError: another one is at work, or the table does not take versions on these terms.
    """
    rows = work.rows("import_lock", table_id=table_id)
    if not rows:
        raise TableStateError(
            f"The table with the id {table_id} was dropped while its log was read.",
            hint="Another import by force may have begun; see `deltasql tables`.",
        )
    table_key, current, first, ict, state, properties, namespace, name = rows[0]
    # in a statement of its own: the one that waited for the lock saw what was there before
    found = work.rows("import_progress", table_id=table_id)
    segment, checkpoint, parts = found[0] if found else (None, None, 0)
    lock = ImportLock(
        table_id,
        table_key,
        current,
        first,
        ict,
        TableState(state),
        msgspec.json.decode(properties),
        f"{namespace}.{name}" if namespace else name,
        segment,
        checkpoint,
        int(parts),
    )
    if lock.state not in terms.states or lock.next_version != version:
        raise not_ready_error(lock, version, terms)
    return lock


def not_ready_error(lock: ImportLock, version: int, terms: LoadTerms = IMPORTED) -> TableStateError:
    """Return the error of a version that cannot be loaded now."""
    return TableStateError(
        f"Table {lock.full_name} is {lock.state} at {lock.current_version}; version {version} "
        f"cannot be {terms.verb}.",
        hint=terms.hint,
        table=lock.full_name,
        version=version,
    )


def noted(properties: dict[str, Any], notes: dict[str, Any]) -> dict[str, Any]:
    """Return a table's properties with these notes in `import_metadata`."""
    return properties | {"import_metadata": properties.get("import_metadata", {}) | notes}
