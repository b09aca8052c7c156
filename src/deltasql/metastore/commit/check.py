"""Under the lock: may this request be committed?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from deltasql.database.port import BulkTransaction, DbTransaction
from deltasql.errors import (
    CommitConflictError,
    InvalidCommitError,
    OwnershipError,
    TableStateError,
    VacuumedError,
)
from deltasql.metastore.commit.encode import read_payload
from deltasql.metastore.commit.request import CommitRequest, TableRead
from deltasql.metastore.leases import write_purpose
from deltasql.metastore.references import (
    Place,
    is_absolute,
    keys_below,
    markable_places,
    paths_of,
    purged_places,
)
from deltasql.metastore.table_row import LockedTable, TableRow, TableState
from deltasql.protocol.actions import Action, Add, Cdc, Metadata, Protocol, Remove, Txn
from deltasql.protocol.codec import decode_commit
from deltasql.protocol.conflicts import Conflict, Winner, find_conflict, is_blind_append
from deltasql.protocol.features import (
    lost_features,
    require_listed,
    require_readable,
    require_writable,
)
from deltasql.protocol.properties import read_bool
from deltasql.protocol.schema.columns import physical_partition_columns
from deltasql.protocol.validate import check_commit, check_metadata_change

_REFUSALS = {
    TableState.IMPORTING: "it is being imported",
    TableState.READ_ONLY: "it is a read-only copy of a log that others write",
    TableState.CONFLICT: "its log holds a commit that SQL does not know",
    TableState.DETACHED: "it was detached from deltasql",
    TableState.DELETED: "it was dropped",
}

# Maximum number of winners that are read while the table is locked and its writers wait.
_WINNERS_UNDER_LOCK = 64
WINNERS_AT_ONCE = 256


def check_vacuum(tx: DbTransaction, row: TableRow, request: CommitRequest) -> None:
    """Refuse what refers to objects that are gone or going.

    Raises:
        VacuumedError: names the version or the file.
    """
    if request.restores is not None:
        refuse_vacuumed(tx, row, request.restores)
    if request.work_id is not None and not _is_noted(tx, request):
        raise VacuumedError(
            f"The write to {row.full_name} was not heard of for so long that vacuum may have taken "
            "its files for leftovers.",
            hint="Write the rows again.",
            table=row.full_name,
        )
    _check_actions(tx, row, request.actions)


def _check_actions(tx: DbTransaction, row: TableRow, actions: Sequence[Action]) -> None:
    adds = [action for action in actions if isinstance(action, Add)]
    paths = [path for add in adds for path in paths_of(add.path, add.deletion_vector)]
    check_paths(tx, row, paths, [one.path for one in actions if isinstance(one, Cdc)])


def check_paths(
    tx: DbTransaction | BulkTransaction, row: TableRow, paths: Sequence[str], cdc: Sequence[str]
) -> None:
    """Refuse files of adds and of change data that are gone or going.

    Raises:
        VacuumedError: names the file.
    """
    place = Place(row.table_id, row.location, row.location_key)
    if row.is_vacuuming:
        _refuse_marked(tx, place, [*paths, *cdc], own=True)
    outside = [path for path in paths if is_absolute(path)]
    if outside:
        _check_neighbours(tx, place, outside)


def _is_noted(tx: DbTransaction, request: CommitRequest) -> bool:
    purpose = write_purpose(str(request.work_id))
    return bool(tx.fetch_all("open_work", table_id=request.table_id, purpose=purpose))


def refuse_vacuumed(tx: DbTransaction, row: TableRow, version: int) -> None:
    """Refuse a version whose files vacuum has deleted.

    Raises:
        VacuumedError: some of them are gone.
    """
    count, at = tx.fetch_all("vacuumed_of_version", table_id=row.table_id, version=version)[0]
    if count:
        raise VacuumedError(
            f"Version {version} of {row.full_name} cannot be read any more: vacuum deleted "
            f"{count} of its files.",
            table=row.full_name,
            version=version,
            vacuumed_at=at,
        )


def _check_neighbours(
    tx: DbTransaction | BulkTransaction, place: Place, paths: Sequence[str]
) -> None:
    """A vacuum or a purge of the tables the paths lie in waits for this commit, or is seen."""
    for other in markable_places(tx, place):
        if any(keys_below((other.location, other.location_key), paths, own=False)):
            tx.fetch_all("share_table", table_id=other.table_id)
            _refuse_marked(tx, other, paths, own=False)
    for purged in purged_places(tx):
        for key in keys_below((purged.location, purged.location_key), paths, own=False):
            raise VacuumedError(
                f"The file {key} at {purged.location} belonged to a table that was purged.",
                hint="Write the rows again to a new file.",
                key=key,
            )


def _refuse_marked(
    tx: DbTransaction | BulkTransaction, place: Place, paths: Sequence[str], *, own: bool
) -> None:
    keys = list(keys_below((place.location, place.location_key), paths, own=own))
    found = tx.fetch_all("marked_keys", table_id=place.table_id, keys=keys) if keys else []
    if found:
        raise VacuumedError(
            f"The file {found[0][0]} is being deleted by vacuum.",
            hint="Write the rows again to a new file.",
            key=found[0][0],
        )


class FarBehindError(Exception):
    """Too many winners to be read under the lock; the committer's own."""


@dataclass(frozen=True, slots=True)
class CheckTerms:
    """What requests are checked by: the epoch, and how far the winners of a table were checked.

    Versions never change, so a winner that was checked before the lock need not be read again.
    """

    epoch: int
    checked: Mapping[str, int] = field(default_factory=dict)
    may_be_far_behind: bool = False


def check_request(
    tx: DbTransaction,
    locked: LockedTable,
    request: CommitRequest,
    *,
    terms: CheckTerms,
    table: tuple[Protocol, Metadata],
) -> None:
    """Refuse a request that its table, its winners or the protocol do not allow.

    Raises:
        TableStateError, OwnershipError: the table takes no commits now.
        CommitConflictError: a winner contradicts the request; both sides are named.
        InvalidCommitError, UnsupportedFeatureError: the actions cannot be committed at all.
        FarBehindError: there are many winners; check them ahead of the lock first.
    """
    row = locked.row
    require_open(locked, epoch=terms.epoch)
    _check_winners(tx, locked, request, terms)
    _check_txns(tx, locked, request)
    check_vacuum(tx, row, request)
    check_rules(row.full_name, request.actions, *table)


def check_ahead(tx: DbTransaction, row: TableRow, request: CommitRequest, after: int) -> int:
    """Check a request against the winners after a version, without a lock; return the last one.

    Raises:
        CommitConflictError: a winner contradicts it, whatever comes later.
    """
    for start in range(after, row.current_version, WINNERS_AT_ONCE):
        end = min(start + WINNERS_AT_ONCE, row.current_version)
        conflict = find_conflict(
            request.actions, request.read, read_winners(tx, row.table_id, start, end)
        )
        if conflict is not None:
            _refuse(row, request, conflict)
    return max(after, row.current_version)


def check_read(
    tx: DbTransaction, locked: LockedTable, read: TableRead, *, terms: CheckTerms
) -> None:
    """Refuse a transaction that read what is no longer so; the table itself takes no commit.

    Raises:
        OwnershipError: the catalog is in another epoch.
        CommitConflictError: a winner contradicts what was read.
    """
    _require_epoch(locked, terms.epoch)
    request = read.as_request()
    _check_winners(tx, locked, request, terms)


def require_open(locked: LockedTable, *, epoch: int) -> None:
    """Refuse a table that takes no commits now.

    Raises:
        TableStateError, OwnershipError: it is in another state, or the catalog in another epoch.
    """
    row = locked.row
    _require_epoch(locked, epoch)
    if row.state is not TableState.ACTIVE:
        raise TableStateError(
            f"Table {row.full_name} takes no commits: {_REFUSALS[row.state]}.",
            table=row.full_name,
            state=str(row.state),
        )


def _require_epoch(locked: LockedTable, epoch: int) -> None:
    if locked.epoch != epoch:
        raise OwnershipError(
            f"The catalog was recovered under epoch {locked.epoch}; this process has {epoch}.",
            hint="Open the catalog again.",
        )


def _check_winners(
    tx: DbTransaction, locked: LockedTable, request: CommitRequest, terms: CheckTerms
) -> None:
    row, read = locked.row, request.read
    current = row.current_version
    if read.version > current:
        raise InvalidCommitError(
            f"The commit to {row.full_name} was made on version {read.version}, "
            f"but the table is at {current}."
        )
    if request.expected_version not in (None, current):
        winner = read_winners(tx, row.table_id, current - 1, current)[0]
        _refuse(row, request, Conflict("it took the expected version", "version", winner))
    if read.version == current:
        return
    changed = max(row.metadata_version, row.protocol_version)
    if is_blind_append(request.actions, read):
        if changed > read.version:
            if changed < row.oldest_version:
                raise _forgotten_error(row, read.version)
            winner = read_winners(tx, row.table_id, changed - 1, changed)[0]
            what = "metadata" if changed == row.metadata_version else "protocol"
            _refuse(row, request, Conflict(f"it changed the table's {what}", what, winner))
        return
    if read.version < row.oldest_version - 1:
        raise _forgotten_error(row, read.version)
    after = max(read.version, terms.checked.get(row.table_id, read.version))
    if current - after > _WINNERS_UNDER_LOCK and not terms.may_be_far_behind:
        raise FarBehindError
    conflict = find_conflict(request.actions, read, read_winners(tx, row.table_id, after, current))
    if conflict is not None:
        _refuse(row, request, conflict)


def _forgotten_error(row: TableRow, version: int) -> CommitConflictError:
    return CommitConflictError(
        f"Table {row.full_name}: the commit was made on version {version}, and what came before "
        f"{row.oldest_version} is forgotten; nobody can tell what it contradicts.",
        table=row.full_name,
        read_version=version,
    )


def read_winners(tx: DbTransaction, table_id: str, after: int, upto: int) -> list[Winner]:
    """Return the commits after one version and up to another, with their actions."""
    rows = tx.fetch_all("versions_between", table_id=table_id, after=after, upto=upto)
    return [
        Winner(
            version,
            operation,
            commit_id,
            decode_commit(read_payload(tx, table_id, version), version=version, lenient=True),
        )
        for version, operation, _, commit_id, *_ in rows
    ]


def _refuse(row: TableRow, request: CommitRequest, conflict: Conflict) -> None:
    sentence = conflict.describe(request.note.operation, request.read.version)
    raise CommitConflictError(
        f"Table {row.full_name}: {sentence}",
        table=row.full_name,
        read_version=request.read.version,
        version=conflict.winner.version,
        winner_operation=conflict.winner.operation,
        winner_commit_id=conflict.winner.commit_id,
        operation=request.note.operation,
        commit_id=request.commit_id,
        reason=conflict.reason,
    )


def _check_txns(tx: DbTransaction, locked: LockedTable, request: CommitRequest) -> None:
    for action in request.actions:
        if not isinstance(action, Txn):
            continue
        rows = tx.fetch_all("current_txn", table_id=locked.row.table_id, app_id=action.app_id)
        if rows and rows[0][0] >= action.version:
            raise CommitConflictError(
                f"Table {locked.row.full_name}: application {action.app_id} has already written "
                f"{rows[0][0]}; {action.version} is not newer.",
                hint="The batch was written before; go on with the next one.",
                app_id=action.app_id,
                txn_version=rows[0][0],
            )


def check_rules(
    name: str, actions: Sequence[Action], protocol: Protocol, metadata: Metadata
) -> None:
    """Refuse actions that the table's protocol, metadata and properties do not allow."""
    after_protocol = next((a for a in actions if isinstance(a, Protocol)), protocol)
    after = next((a for a in actions if isinstance(a, Metadata)), metadata)
    require_writable(protocol, name)
    require_readable(after_protocol, name)
    if after_protocol is not protocol:
        require_writable(after_protocol, name)
        lost = lost_features(protocol, after_protocol, after)
        if lost:
            raise InvalidCommitError(
                f"Table {name} cannot lose the features {', '.join(sorted(lost))}: its files may "
                "need them."
            )
    check_commit(actions, partition_columns=physical_partition_columns(after))
    if any(isinstance(action, Metadata | Protocol) for action in actions):
        check_metadata_change(metadata, after)
        require_listed(after, after_protocol, name)
    if read_bool(after.configuration, "delta.appendOnly"):
        gone = next((a for a in actions if isinstance(a, Remove) and a.data_change), None)
        if gone is not None:
            raise InvalidCommitError(
                f"Table {name} is append-only (delta.appendOnly): {gone.path} cannot be removed."
            )
    unknown = [a.path for a in actions if isinstance(a, Add) and a.deletion_vector]
    if unknown and "deletionVectors" not in (after_protocol.writer_features or ()):
        raise InvalidCommitError(
            f"Table {name} does not have the feature deletionVectors, which {unknown[0]} needs."
        )
