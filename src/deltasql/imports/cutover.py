"""Take over a log: the next number is won by put-if-absent before SQL accepts any commit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from deltasql.catalog.bulk_rows import VersionWindow
from deltasql.catalog.bulk_versions import commit_times
from deltasql.catalog.catalog import SqlCatalog
from deltasql.catalog.copies import Claim, noted_claim
from deltasql.catalog.cutover import CutoverBook
from deltasql.catalog.rows import TableRow, TableState
from deltasql.crash import crash_point
from deltasql.errors import CutoverError, DeltaSqlError, OwnershipError, StorageError
from deltasql.importer.commit_files import CommitFiles
from deltasql.importer.listing import newer_commits
from deltasql.importer.parse import read_window, window_of
from deltasql.log.owner import OWNER_KEY, Owner, claim, encode_owner, read_owner
from deltasql.log.segment import newest_commit
from deltasql.protocol.actions import CommitInfo, Metadata, Protocol
from deltasql.protocol.claim import OPERATION, claim_actions, require_claimable
from deltasql.protocol.codec import serialize_actions
from deltasql.protocol.features import is_fenced
from deltasql.protocol.files import commit_key
from deltasql.storage.create import Created, create_once
from deltasql.storage.port import ObjectStore
from deltasql.version import __version__

# A writer that is always faster than we are is not to be raced for ever.
_RACES = 20
# So many commits that SQL lacks are read for a claim above them; more are imported first.
_MOST_AHEAD = 32


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

    `catch_up` imports what the log has and SQL has not, up to a version, and returns the table
    afterwards. A claim stands above commits that are not imported yet: importing them first would
    take longer than a busy writer needs for the next one. They are in before SQL takes any commit.
    With `follow`, that goes for commits from before the cut-over too.
    """

    book: SqlCatalog
    store: ObjectStore
    catch_up: Callable[[int | None], TableRow]
    new_id: Callable[[], str]
    now_ms: Callable[[], int]
    fence: bool = True
    follow: bool = False
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
        if noted_claim(self.book.database, row.table_id) is None:
            if not self.follow:
                self._require_head(row)
            snapshot = self.book.snapshot(row.table_id)
            self._require_free(row, snapshot.protocol, snapshot.metadata)
        self._take_marker(row)
        for lost in range(_RACES):
            begun = noted_claim(self.book.database, row.table_id)
            if begun is None:
                row, begun = self._claim_next(row)
            if self._put(begun):
                return self._won(row, begun, lost)
            crash_point("after-claim-lost")
            row = CutoverBook(self.book.database).forget(row.table_id)
        self.store.delete(OWNER_KEY)
        raise CutoverError(
            f"Other writers of {row.full_name} were faster {_RACES} times.",
            hint="Nothing was claimed. Pause the other writers for a moment and try again.",
            table=row.full_name,
        )

    def _claim_next(self, row: TableRow) -> tuple[TableRow, Claim]:
        """Note a claim for the log's next number; where that is refused the marker goes again."""
        try:
            row, window = self._ahead(row)
            begun = self._new_claim(row, window)
        except DeltaSqlError:
            with suppress(StorageError):
                self.store.delete(OWNER_KEY)
            raise
        CutoverBook(self.book.database).note(row.table_id, begun)
        return row, begun

    def _put(self, begun: Claim) -> bool:
        crash_point("before-claim-put")
        found = create_once(self.store, commit_key(begun.version), begun.payload)
        crash_point("after-claim-put")
        return found is not Created.DIFFERENT

    def _won(self, row: TableRow, begun: Claim, lost: int) -> CutOver:
        if row.current_version < begun.version - 1:
            row = self.catch_up(begun.version - 1)
            crash_point("after-claim-caught-up")
        won = window_of(self.store.uri, begun.version, begun.payload, now_ms=self.now_ms())
        done = CutoverBook(self.book.database).fulfil(row.table_id, won, now=self.now_ms())
        return CutOver(row.full_name, begun.version, lost, done)

    def _ahead(self, row: TableRow) -> tuple[TableRow, VersionWindow | None]:
        """Read what others have committed and SQL has not; of very much of it, import the most."""
        files = list(islice(newer_commits(self.store, row.current_version), _MOST_AHEAD + 1))
        if len(files) > _MOST_AHEAD:
            row = self.catch_up(None)
            files = list(newer_commits(self.store, row.current_version))
        return row, read_window(self.store, CommitFiles.of(files)) if files else None

    def _new_claim(self, row: TableRow, window: VersionWindow | None) -> Claim:
        snapshot = self.book.snapshot(row.table_id)
        protocol, metadata, last, newest = snapshot.protocol, snapshot.metadata, -1, row.last_ict
        if window is not None:
            changes = [change for _, change in window.changes]
            protocol = next((c for c in changes[::-1] if isinstance(c, Protocol)), protocol)
            metadata = next((c for c in changes[::-1] if isinstance(c, Metadata)), metadata)
            last, newest = window.last, max(commit_times(window.versions, newest))
            self._require_free(row, protocol, metadata)
        before = max(row.current_version, last)
        info = CommitInfo(
            timestamp=max(self.now_ms(), newest + 1),
            operation=OPERATION,
            operation_parameters={},
            read_version=before,
            is_blind_append=False,
            engine_info=f"deltasql/{__version__}",
            txn_id=self.new_id(),
            user_name=self.committer,
        )
        actions = claim_actions(protocol, metadata, info, before + 1, fence=self.fence)
        return Claim(before + 1, serialize_actions(actions))

    def _require_head(self, row: TableRow) -> None:
        newest = newest_commit(self.store)
        if newest is not None and newest != row.current_version:
            raise CutoverError(
                f"The log of {row.full_name} is at version {newest}, SQL at {row.current_version}.",
                hint="Nothing was claimed; other writers may go on. Run "
                f"`catalog.import_table({row.location!r}, name={row.full_name!r}, resume=True)` "
                "first; with `follow=True`, the cut-over takes along what others have committed "
                "since.",
                table=row.full_name,
                version=newest,
            )

    def _take_marker(self, row: TableRow) -> None:
        """Shut out other catalogs before the race: of two claims in a row, both would win."""
        identity = self.book.identity
        owner = Owner(identity.catalog_id, identity.epoch, row.table_id)
        found = read_owner(self.store)
        if found is not None and found != owner and self._is_of_dropped(found):
            self.store.put(OWNER_KEY, encode_owner(owner))
        else:
            claim(self.store, owner)
        crash_point("after-claim-marker")

    def _is_of_dropped(self, owner: Owner) -> bool:
        """Tell whether a marker was left by a table of this catalog that was dropped."""
        is_ours = owner.catalog_id == self.book.identity.catalog_id
        return is_ours and self.book.is_dropped(owner.table_id)

    def _require_free(self, row: TableRow, protocol: Protocol, metadata: Metadata) -> None:
        """Refuse a log that another catalog has fenced; a dropped table's fence is ours."""
        require_claimable(protocol, metadata, row.full_name)
        if not is_fenced(protocol):
            return
        owner = read_owner(self.store)
        is_own = owner is not None and owner.table_id == row.table_id
        if owner is None or not (is_own or self._is_of_dropped(owner)):
            raise OwnershipError(
                f"The log of {row.full_name} is fenced: a catalog that we do not know manages it.",
                hint="If that catalog is lost, `deltasql unfence` opens the log again.",
                table=row.full_name,
            )


def _require_state(row: TableRow) -> None:
    if row.state is not TableState.READ_ONLY:
        raise CutoverError(
            f"Table {row.full_name} is {row.state}; only a read-only import can be cut over.",
            hint="An active table is SQL's already; an unfinished import goes on with "
            "`resume=True`.",
            table=row.full_name,
        )
