"""Is the log ours? Looked at once per process and table, before the first put.

A restored backup, a cloned database or a writer that bypassed SQL shows here: the log belongs to
another catalog, or holds versions that SQL does not know. Then nothing is written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from deltasql.clock import now_ms
from deltasql.errors import (
    CatalogError,
    ObjectNotFoundError,
    OwnershipError,
    StorageUnavailableError,
    TableNotFoundError,
)
from deltasql.forks import start_afresh_after_fork
from deltasql.log.owner_marker import (
    OWNER_KEY,
    Owner,
    check_owner,
    claim,
    encode_owner,
    owner_error,
    read_owner,
)
from deltasql.metastore.leases import PURGE, is_leased
from deltasql.metastore.log_state import require_own_log
from deltasql.metastore.registry import SqlCatalog
from deltasql.metastore.table_row import TableRow
from deltasql.protocol.log_names import LAST_CHECKPOINT, LOG_FOLDER, commit_key, decode_hint
from deltasql.storage.port import ObjectStore

# A put of a commit takes seconds; what is so much older belongs to a writer that was killed.
_LEFTOVER_AGE_S = 3600.0


@dataclass(slots=True, weakref_slot=True)
class Ownership:
    """Remembers which logs were found to be ours; safe to use from many threads."""

    catalog: SqlCatalog
    clock: Callable[[], int] = now_ms
    _owned: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        start_afresh_after_fork(self)

    def start_afresh(self) -> None:
        """Look again: the lock may be held by a thread of the parent."""
        self._owned, self._lock = set(), threading.Lock()

    def forget(self, table_id: str) -> None:
        """Look again before the next put."""
        with self._lock:
            self._owned.discard(table_id)

    def is_known(self, table_id: str) -> bool:
        """Return whether this process has found the log to be ours."""
        with self._lock:
            return table_id in self._owned

    def check_marker(self, row: TableRow, store: ObjectStore) -> None:
        """Look at the marker now, as before every delete.

        Raises:
            OwnershipError: it is not there, or another catalog's.
        """
        require_own_log(row)
        identity = self.catalog.identity
        owner = Owner(identity.catalog_id, identity.epoch, row.table_id)
        if not check_owner(store, owner):
            raise OwnershipError(f"The log at {store.uri} has no owner marker.", key=OWNER_KEY)

    def refuse_others(self, row: TableRow, store: ObjectStore) -> None:
        """Make sure that the log is nobody else's; it may hold versions that SQL lacks.

        Raises:
            OwnershipError: it is another catalog's, or another epoch's.
        """
        require_own_log(row)
        self._require_epoch()
        identity = self.catalog.identity
        check_owner(store, Owner(identity.catalog_id, identity.epoch, row.table_id))

    def require_none_else(self, row: TableRow, store: ObjectStore) -> None:
        """Look at the marker and at the log's end now, as before a purge; both may be missing.

        Raises:
            OwnershipError: the log is another's, or holds versions that SQL does not know.
        """
        self.refuse_others(row, store)
        self._refuse_contest(row, store)
        self.refuse_ahead(row, store)

    def refuse_ahead(self, row: TableRow, store: ObjectStore) -> None:
        """Make sure that the log holds no version that SQL does not know.

        Raises:
            OwnershipError: it does.
        """
        self._refuse_log_ahead(row, store)
        self._refuse_hint_ahead(row, store)

    def require_sole(self, row: TableRow, store: ObjectStore) -> None:
        """Look at the marker and at the log's end now, as before data is deleted.

        Raises:
            OwnershipError: the log is not ours, or holds versions that SQL does not know.
        """
        self.check_marker(row, store)
        self._refuse_contest(row, store)
        self._refuse_log_ahead(row, store)
        self._refuse_hint_ahead(row, store)

    def ensure(self, row: TableRow, store: ObjectStore) -> None:
        """Make sure, once per process and table, that the log is ours and not ahead of SQL.

        Raises:
            OwnershipError: it is another catalog's, or holds versions that SQL does not know.
        """
        require_own_log(row)
        # a local disk can be unmounted at any time: a new folder would begin a log with a gap
        if self.is_known(row.table_id) and (
            not row.location.startswith("file:") or _has_marker(store)
        ):
            return
        identity = self.catalog.identity
        owner = Owner(identity.catalog_id, identity.epoch, row.table_id)
        self._require_epoch()
        self._take_marker(row, store, owner)
        self._refuse_log_ahead(row, store)
        self._refuse_hint_ahead(row, store)
        store.sweep_leftovers(LOG_FOLDER, _LEFTOVER_AGE_S, self.clock() / 1000)
        with self._lock:
            self._owned.add(row.table_id)

    def _take_marker(self, row: TableRow, store: ObjectStore, owner: Owner) -> None:
        """Put our marker where there is none, or where a create that failed left one."""
        found = read_owner(store)
        if found == owner:
            return
        if found is not None and not is_leftover(self.catalog, found):
            raise owner_error(store, found)
        # SQL after the log: whoever took the marker away has detached the table before
        require_own_log(self.catalog.table_by_id(row.table_id))
        self._check_unmarked(row, store)
        if found is None:
            claim(store, owner)
            return
        self._check_unmirrored(row, store)
        store.put(OWNER_KEY, encode_owner(owner))

    def _require_epoch(self) -> None:
        """A process from before a recovery must not claim a log for the epoch that is over."""
        epoch = self.catalog.current_epoch()
        if epoch != self.catalog.identity.epoch:
            raise CatalogError(
                f"The catalog was recovered under epoch {epoch}; this process has "
                f"{self.catalog.identity.epoch}.",
                hint="Restart it, or open the catalog again.",
            )

    def _check_unmarked(self, row: TableRow, store: ObjectStore) -> None:
        """Accept a log without a marker only if what we mirrored is still what is there."""
        last = row.mirrored_through
        if last < row.first_version:
            return
        if not self._holds_own_commit(row, store, last):
            key = commit_key(last)
            raise OwnershipError(f"{key} is gone from the log at {store.uri}.", key=key)

    def _check_unmirrored(self, row: TableRow, store: ObjectStore) -> None:
        """A restored backup does not know the tables made since: their commits are not ours."""
        if row.mirrored_through < row.first_version:
            self._holds_own_commit(row, store, row.first_version)

    def _refuse_contest(self, row: TableRow, store: ObjectStore) -> None:
        """The next number to be mirrored may be a foreign commit, whose files only it names."""
        if row.mirrored_through < row.current_version:
            self._holds_own_commit(row, store, row.mirrored_through + 1)

    def _holds_own_commit(self, row: TableRow, store: ObjectStore, version: int) -> bool:
        """Return whether the log has a version, after making sure that it is the one SQL has.

        Raises:
            OwnershipError: its bytes are not those of SQL.
        """
        key = commit_key(version)
        try:
            found = store.get(key)
        except ObjectNotFoundError:
            return False
        stored = self.catalog.payload(row.table_id, version)
        if found != stored and stored.startswith(found):
            raise StorageUnavailableError(f"Only a part of {key} came back.", key=key)
        if found != stored:
            raise OwnershipError(f"{key} at {store.uri} is not the version that SQL has.", key=key)
        return True

    def _refuse_log_ahead(self, row: TableRow, store: ObjectStore) -> None:
        """SQL is read after the log: what others commit meanwhile is in SQL before it is there."""
        current = self.catalog.table_by_id(row.table_id).current_version
        while True:
            key = commit_key(current + 1)
            try:
                store.head(key)
            except ObjectNotFoundError:
                return
            newer = self.catalog.table_by_id(row.table_id).current_version
            if newer <= current:
                raise OwnershipError(
                    f"The log at {store.uri} holds {key}; SQL has table {row.full_name} up to "
                    f"{current}.",
                    key=key,
                )
            current = newer

    def _refuse_hint_ahead(self, row: TableRow, store: ObjectStore) -> None:
        """The commits right above SQL's may have been cleaned away; the hint stays."""
        try:
            hint = decode_hint(store.get(LAST_CHECKPOINT))
        except ObjectNotFoundError:
            return
        # SQL after the log, as above: a checkpoint is never newer than what SQL has by now
        current = self.catalog.table_by_id(row.table_id).current_version
        if hint is not None and hint.version > current:
            raise OwnershipError(
                f"The log at {store.uri} has a checkpoint of version {hint.version}; SQL has "
                f"table {row.full_name} up to {current}.",
                key=LAST_CHECKPOINT,
            )


def _has_marker(store: ObjectStore) -> bool:
    try:
        store.head(OWNER_KEY)
    except ObjectNotFoundError:
        return False
    return True


def is_leftover(catalog: SqlCatalog, owner: Owner) -> bool:
    """Tell whether a marker names a table of this catalog that was never made, or was purged.

    While a purge is deleting objects, the location is not free.
    """
    if owner.catalog_id != catalog.identity.catalog_id:
        return False
    try:
        row = catalog.table_by_id(owner.table_id)
    except TableNotFoundError:
        return True
    return row.is_purged and not is_leased(catalog.database, row.table_id, PURGE)
