"""Take over a log: the next number is won by put-if-absent before SQL accepts any commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deltasql.catalog.catalog import SqlCatalog
from deltasql.catalog.cutover import Claim, CutoverBook, noted_claim
from deltasql.catalog.rows import TableRow, TableState
from deltasql.crash import crash_point
from deltasql.errors import CutoverError, OwnershipError
from deltasql.log.owner import OWNER_KEY, Owner, claim
from deltasql.log.segment import newest_commit
from deltasql.protocol.actions import CommitInfo
from deltasql.protocol.claim import OPERATION, claim_actions
from deltasql.protocol.codec import serialize_actions
from deltasql.protocol.features import is_fenced, require_writable
from deltasql.protocol.files import commit_key
from deltasql.storage.create import Created, create_once
from deltasql.storage.port import ObjectStore
from deltasql.version import __version__

# A writer that is always faster than we are is not to be raced for ever.
_RACES = 20


@dataclass(frozen=True, slots=True)
class CutOver:
    """What became of a cut-over: the claim's version, and how many races were lost before it."""

    table: str
    version: int
    lost: int
    row: TableRow


@dataclass(slots=True)
class Cutover:
    """Takes over the log of one imported table.

    `catch_up` imports what the log has and SQL has not, and returns the table afterwards.
    """

    book: SqlCatalog
    store: ObjectStore
    catch_up: Callable[[], TableRow]
    new_id: Callable[[], str]
    now_ms: Callable[[], int]
    fence: bool = True
    committer: str | None = None

    def run(self, row: TableRow) -> CutOver:
        """Win the log's next number, or tell why not; safe to repeat after any failure.

        Raises:
            CutoverError: the import is behind the log, or others are always faster.
            UnsupportedFeatureError: our commits might break the table's rules.
            OwnershipError: another catalog has taken the log over.
            StorageUnavailableError: the outcome is unknown; run it again.
        """
        _require_state(row)
        if noted_claim(row) is None:
            self._require_head(row)
            self._require_free(row)
        self._take_marker(row)
        for lost in range(_RACES):
            begun = noted_claim(row)
            if begun is None:
                begun = self._new_claim(row)
                CutoverBook(self.book.database).note(row.table_id, begun)
            if self._put(begun):
                return self._won(row, begun, lost)
            crash_point("after-claim-lost")
            CutoverBook(self.book.database).forget(row.table_id)
            row = self.catch_up()
        self.store.delete(OWNER_KEY)
        raise CutoverError(
            f"Other writers of {row.full_name} were faster {_RACES} times.",
            hint="Nothing was claimed. Pause the other writers for a moment and try again.",
            table=row.full_name,
        )

    def _put(self, begun: Claim) -> bool:
        crash_point("before-claim-put")
        found = create_once(self.store, commit_key(begun.version), begun.payload)
        crash_point("after-claim-put")
        return found is not Created.DIFFERENT

    def _won(self, row: TableRow, begun: Claim, lost: int) -> CutOver:
        book = CutoverBook(self.book.database)
        done = book.fulfil(row.table_id, begun, now=self.now_ms())
        return CutOver(row.full_name, begun.version, lost, done)

    def _new_claim(self, row: TableRow) -> Claim:
        snapshot = self.book.snapshot(row.table_id)
        require_writable(snapshot.protocol, row.full_name)
        version = row.current_version + 1
        info = CommitInfo(
            timestamp=max(self.now_ms(), row.last_ict + 1),
            operation=OPERATION,
            operation_parameters={},
            read_version=row.current_version,
            is_blind_append=False,
            engine_info=f"deltasql/{__version__}",
            txn_id=self.new_id(),
            user_name=self.committer,
        )
        actions = claim_actions(
            snapshot.protocol, snapshot.metadata, info, version, fence=self.fence
        )
        return Claim(version, serialize_actions(actions))

    def _require_free(self, row: TableRow) -> None:
        protocol = self.book.snapshot(row.table_id).protocol
        require_writable(protocol, row.full_name)
        if is_fenced(protocol):
            raise OwnershipError(
                f"The log of {row.full_name} is fenced: a catalog that we do not know manages it.",
                hint="If that catalog is lost, `deltasql unfence` opens the log again.",
                table=row.full_name,
            )

    def _require_head(self, row: TableRow) -> None:
        newest = newest_commit(self.store)
        if newest is not None and newest != row.current_version:
            raise CutoverError(
                f"The log of {row.full_name} is at version {newest}, SQL at {row.current_version}.",
                hint="Nothing was claimed; other writers may go on. Run `deltasql import "
                f"{row.location} --name {row.full_name} --resume` first.",
                table=row.full_name,
                version=newest,
            )

    def _take_marker(self, row: TableRow) -> None:
        """Shut out other catalogs before the race: of two claims in a row, both would win."""
        identity = self.book.identity
        claim(self.store, Owner(identity.catalog_id, identity.epoch, row.table_id))
        crash_point("after-claim-marker")


def _require_state(row: TableRow) -> None:
    if row.state is not TableState.READ_ONLY:
        raise CutoverError(
            f"Table {row.full_name} is {row.state}; only a read-only import can be cut over.",
            hint="An active table is SQL's already; an unfinished import is ended by --resume.",
            table=row.full_name,
        )
