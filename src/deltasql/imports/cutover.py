"""Let SQL take over the log of an imported table: claim its next version, note what others left in
it.

What others have left in a log that is taken over: noted, so that it is known and watched. Their
checkpoints, sidecars and checksums stay as they are. Without a note `verify` would call them
strangers, and nobody would notice when one of them is damaged.

A cut-over in the catalog: the claim is noted before it is put, and becomes a version if it won.
Between the two the log alone decides. Whoever comes after a crash finds the noted claim, looks at
the log, and ends what was begun.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from deltasql.crash import crash_point
from deltasql.database.port import BulkTransaction, Database, DbTransaction
from deltasql.errors import (
    CutoverError,
    DeltaSqlError,
    ImportDifferenceError,
    OwnershipError,
    StorageError,
    UnsafeStoreError,
)
from deltasql.imports.job import ImportOptions, TableImport
from deltasql.imports.load.bulk_load import BulkLoad
from deltasql.imports.load.bulk_versions import commit_times
from deltasql.imports.load.window import VersionWindow
from deltasql.imports.plan.commit_files import CommitFiles
from deltasql.imports.plan.listing import newer_commits
from deltasql.imports.read.parse import read_window, window_of
from deltasql.imports.validate.validator import Verdict, verdict_of
from deltasql.log.commits import newest_commit, object_digest
from deltasql.log.owner_marker import OWNER_KEY, Owner, claim, encode_owner, read_owner
from deltasql.metastore.id_blocks import IdBlocks
from deltasql.metastore.log_state import INHERITED, Claim, LogFiles, RecordedFile, noted_claim
from deltasql.metastore.registry import SqlCatalog
from deltasql.metastore.table_row import TableRow, TableState, table_row
from deltasql.protocol.actions import CommitInfo, Metadata, Protocol
from deltasql.protocol.codec import dump_values, serialize_actions
from deltasql.protocol.features import OPERATION, claim_actions, is_fenced, require_claimable
from deltasql.protocol.log_names import (
    LAST_CHECKPOINT,
    LAST_CHECKPOINT_CHECKSUM,
    LOG_FOLDER,
    LogFile,
    LogFileKind,
    commit_key,
)
from deltasql.runtime.connection import Connection
from deltasql.storage.conditional_put import StoreVerdict, check_conditional_put
from deltasql.storage.port import Created, ObjectInfo, ObjectStore, create_once
from deltasql.version import __version__

# We write or remove these ourselves.
_CHANGING = {OWNER_KEY, LAST_CHECKPOINT, LAST_CHECKPOINT_CHECKSUM}
_OURS = f"{LOG_FOLDER}_deltasql_"

# A local file on its way, by delta-rs: it becomes the commit, or goes.
_STAGED = re.compile(r"#\d+$")
_WORKERS = 8

# A writer that is always faster than we are is not to be raced for ever.
_RACES = 20

# So many commits that SQL lacks are read for a claim above them; more are imported first.
_MOST_AHEAD = 32


def inherit(database: Database, row: TableRow, store: ObjectStore) -> int:
    """Note everything in the log that is no commit of the table; return how much was new."""
    log_files = LogFiles(database)
    known = {file.key for file in log_files.all(row.table_id)}
    listed = [info for info in _strangers(store, row) if info.key not in known]
    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="deltasql-inherit") as pool:
        digests = list(pool.map(lambda info: object_digest(store, info.key), listed))
    with database.write() as tx:
        for info, digest in zip(listed, digests, strict=True):
            if digest is not None:  # its writer has removed it meanwhile
                file = RecordedFile(
                    info.key,
                    _version(info, row),
                    INHERITED,
                    info.size,
                    digest,
                    e_tag=info.e_tag,
                )
                log_files.record(tx, row.table_id, file)
        crash_point("before-inherited")
    return len(listed)


def _strangers(store: ObjectStore, row: TableRow) -> Iterator[ObjectInfo]:
    for info in store.list_from(LOG_FOLDER):
        if info.key in _CHANGING or info.key.startswith(_OURS) or _STAGED.search(info.key):
            continue
        file = LogFile.parse(info.key.removeprefix(LOG_FOLDER))
        is_commit = file is not None and file.kind is LogFileKind.COMMIT
        if not (is_commit and file is not None and file.version >= row.log_floor):
            yield info


def _version(info: ObjectInfo, row: TableRow) -> int:
    """A file whose name tells no version may belong to any up to the newest."""
    file = LogFile.parse(info.key.removeprefix(LOG_FOLDER))
    return row.current_version if file is None else file.last_version or file.version


@dataclass(slots=True)
class CutoverStore:
    """Notes, forgets and fulfils claims in one catalog."""

    database: Database

    def note(self, table_id: str, claim: Claim) -> None:
        """Write down a claim before anybody else can see it.

        Raises:
            CutoverError: the table is not a read-only import from before the claim, or another
                claim is noted.
        """
        with self.database.write() as tx:
            row = _lock(tx, table_id)
            if row.state is not TableState.READ_ONLY or row.current_version >= claim.version:
                raise _not_ready(row, claim.version - 1)
            if noted_claim(tx, table_id) not in (None, claim):
                raise CutoverError(
                    f"Another cut-over of {row.full_name} is under way.", table=row.full_name
                )
            text = claim.payload.decode()
            tx.execute("set_import_claim", table_id=table_id, version=claim.version, claim=text)
            crash_point("before-claim-noted")
        crash_point("after-claim-noted")

    def forget(self, table_id: str) -> TableRow:
        """Drop a claim that has lost, and return the table as it is then."""
        with self.database.write() as tx:
            tx.execute("end_import", table_id=table_id)
            crash_point("before-claim-forgotten")
            return _lock(tx, table_id)

    def fulfil(self, table_id: str, won: VersionWindow, *, now: int) -> TableRow:
        """Make a claim that has won the table's newest version and let it take commits."""
        load = BulkLoad(self.database, table_id, IdBlocks(self.database, "file_id"))
        with self.database.bulk() as tx:
            _require_ready(tx, table_id, won.first - 1)
            load.claim(tx, won, now=now)
            tx.execute("set_state", table_id=table_id, state=str(TableState.ACTIVE))
            tx.execute("end_import", table_id=table_id)
            _set(tx, _lock(tx, table_id), {"cut_over_at": won.first})
            crash_point("before-cutover-commit")
            row = _lock(tx, table_id)
        crash_point("after-cutover-commit")
        return row


def _require_ready(tx: BulkTransaction, table_id: str, version: int) -> None:
    row = _lock(tx, table_id)
    if row.state is not TableState.READ_ONLY or row.current_version != version:
        raise _not_ready(row, version)


def _not_ready(row: TableRow, version: int) -> CutoverError:
    return CutoverError(
        f"Table {row.full_name} is {row.state} at version {row.current_version}; it must be "
        f"read_only at {version} to be taken over.",
        table=row.full_name,
    )


def _lock(tx: DbTransaction | BulkTransaction, table_id: str) -> TableRow:
    return table_row(tx.fetch_all("lock_table", table_id=table_id)[0])


def _set(tx: BulkTransaction, row: TableRow, notes: dict[str, Any]) -> None:
    kept = row.properties.get("import_metadata", {}) | notes
    properties = dump_values(row.properties | {"import_metadata": kept})
    tx.execute("set_properties", table_id=row.table_id, properties=properties)


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

    metastore: SqlCatalog
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
        if noted_claim(self.metastore.database, row.table_id) is None:
            if not self.follow:
                self._require_head(row)
            snapshot = self.metastore.snapshot(row.table_id)
            self._require_free(row, snapshot.protocol, snapshot.metadata)
        self._take_marker(row)
        for lost in range(_RACES):
            begun = noted_claim(self.metastore.database, row.table_id)
            if begun is None:
                row, begun = self._claim_next(row)
            if self._put(begun):
                return self._won(row, begun, lost)
            crash_point("after-claim-lost")
            row = CutoverStore(self.metastore.database).forget(row.table_id)
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
        CutoverStore(self.metastore.database).note(row.table_id, begun)
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
        done = CutoverStore(self.metastore.database).fulfil(row.table_id, won, now=self.now_ms())
        return CutOver(row.full_name, begun.version, lost, done)

    def _ahead(self, row: TableRow) -> tuple[TableRow, VersionWindow | None]:
        """Read what others have committed and SQL has not; of very much of it, import the most."""
        files = list(islice(newer_commits(self.store, row.current_version), _MOST_AHEAD + 1))
        if len(files) > _MOST_AHEAD:
            row = self.catch_up(None)
            files = list(newer_commits(self.store, row.current_version))
        return row, read_window(self.store, CommitFiles.of(files)) if files else None

    def _new_claim(self, row: TableRow, window: VersionWindow | None) -> Claim:
        snapshot = self.metastore.snapshot(row.table_id)
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
        identity = self.metastore.identity
        owner = Owner(identity.catalog_id, identity.epoch, row.table_id)
        found = read_owner(self.store)
        if found is not None and found != owner and self._is_of_dropped(found):
            self.store.put(OWNER_KEY, encode_owner(owner))
        else:
            claim(self.store, owner)
        crash_point("after-claim-marker")

    def _is_of_dropped(self, owner: Owner) -> bool:
        """Tell whether a marker was left by a table of this catalog that was dropped."""
        is_ours = owner.catalog_id == self.metastore.identity.catalog_id
        return is_ours and self.metastore.is_dropped(owner.table_id)

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


def cut_over(
    connection: Connection, name: str, *, fence: bool = True, follow: bool = False
) -> CutOver:
    """Take over the log of a table; from then on it takes commits through SQL only.

    With `follow`, what others have committed since the import is taken along.

    Raises:
        ImportDifferenceError: the import is not what its log says, and nobody has accepted that.
        CutoverError: the import is behind the log and `follow` is not told, or others are always
            faster.
        UnsafeStoreError: the store ignores the conditions that decide the race.
    """
    row = _require_equal(connection.metastore.table(name))
    store = connection.store_of(row)
    if check_conditional_put(store, connection.new_id()) is StoreVerdict.IGNORES:
        raise UnsafeStoreError(
            f"The store of {store.uri} ignores conditions: the log cannot be taken over safely."
        )

    def catch_up(upto: int | None) -> TableRow:
        options = ImportOptions(resume=True, up_to_version=upto, ends_claim=upto is not None)
        return _require_equal(TableImport(connection, row.location, name, options).run().row)

    inherit(connection.metastore.database, row, store)
    done = Cutover(
        connection.metastore,
        store,
        catch_up,
        connection.new_id,
        connection.now_ms,
        fence=fence,
        follow=follow,
        committer=connection.user.name,
    ).run(row)
    # once more: a writer that was faster may have left more
    inherit(connection.metastore.database, done.row, store)
    connection.ownership.forget(row.table_id)
    return done


def _require_equal(row: TableRow) -> TableRow:
    """Return the row of a table that is what its log says, as far as anybody has looked."""
    if verdict_of(row) is Verdict.DIFFERENT:
        again = f"`catalog.imports.validate({row.location!r}, name={row.full_name!r})`"
        raise ImportDifferenceError(
            f"The import of {row.full_name} differs from its log; it cannot be cut over.",
            hint=f"{again} shows the differences; with `accept_differences=True` it accepts "
            "them. `force=True` imports the table again.",
            table=row.full_name,
        )
    return row
