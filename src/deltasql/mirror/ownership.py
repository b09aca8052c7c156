"""Is the log ours? Looked at once per process and table, before the first put.

A restored backup, a cloned database or a writer that bypassed SQL shows here: the log belongs to
another catalog, or holds versions that SQL does not know. Then nothing is written.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from deltasql.catalog.catalog import SqlCatalog
from deltasql.catalog.copies import require_own_log
from deltasql.catalog.rows import TableRow
from deltasql.errors import (
    CatalogError,
    ObjectNotFoundError,
    OwnershipError,
    StorageUnavailableError,
)
from deltasql.log.owner import OWNER_KEY, Owner, check_owner, claim
from deltasql.protocol.files import LAST_CHECKPOINT, LOG_FOLDER, commit_key
from deltasql.protocol.last_checkpoint import decode_hint
from deltasql.storage.port import ObjectStore

# A put of a commit takes seconds; what is so much older belongs to a writer that was killed.
_LEFTOVER_AGE_S = 3600.0


@dataclass(slots=True)
class Ownership:
    """Remembers which logs were found to be ours; safe to use from many threads."""

    catalog: SqlCatalog
    clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    _owned: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def forget(self, table_id: str) -> None:
        """Look again before the next put."""
        with self._lock:
            self._owned.discard(table_id)

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
        self._refuse_log_ahead(row, store)
        self._refuse_hint_ahead(row, store)

    def require_sole(self, row: TableRow, store: ObjectStore) -> None:
        """Look at the marker and at the log's end now, as before data is deleted.

        Raises:
            OwnershipError: the log is not ours, or holds versions that SQL does not know.
        """
        self.check_marker(row, store)
        self._refuse_log_ahead(row, store)
        self._refuse_hint_ahead(row, store)

    def ensure(self, row: TableRow, store: ObjectStore) -> None:
        """Make sure, once per process and table, that the log is ours and not ahead of SQL.

        Raises:
            OwnershipError: it is another catalog's, or holds versions that SQL does not know.
        """
        require_own_log(row)
        with self._lock:
            is_known = row.table_id in self._owned
        # a local disk can be unmounted at any time: a new folder would begin a log with a gap
        if is_known and (not row.location.startswith("file:") or _has_marker(store)):
            return
        identity = self.catalog.identity
        owner = Owner(identity.catalog_id, identity.epoch, row.table_id)
        self._require_epoch()
        if not check_owner(store, owner):
            # SQL after the log: whoever took the marker away has detached the table before
            require_own_log(self.catalog.table_by_id(row.table_id))
            self._check_unmarked(row, store)
            claim(store, owner)
        self._refuse_log_ahead(row, store)
        self._refuse_hint_ahead(row, store)
        store.sweep_leftovers(LOG_FOLDER, _LEFTOVER_AGE_S, self.clock() / 1000)
        with self._lock:
            self._owned.add(row.table_id)

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
        key = commit_key(last)
        try:
            found = store.get(key)
        except ObjectNotFoundError:
            raise OwnershipError(f"{key} is gone from the log at {store.uri}.", key=key) from None
        stored = self.catalog.payload(row.table_id, last)
        if found != stored and stored.startswith(found):
            raise StorageUnavailableError(f"Only a part of {key} came back.", key=key)
        if found != stored:
            raise OwnershipError(f"{key} at {store.uri} is not the version that SQL has.", key=key)

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
