"""Which numbers do the log and SQL both claim, and is the log's side whole?"""

from __future__ import annotations

from collections.abc import Sequence

from deltasql.catalog.adopt import FoundCommit
from deltasql.catalog.rows import TableRow
from deltasql.errors import LogGapError, ObjectNotFoundError, StorageUnavailableError
from deltasql.log.segment import newest_commit
from deltasql.parity.log import Difference, Finding
from deltasql.protocol.files import commit_key
from deltasql.storage.port import ObjectStore

CONTESTED = frozenset({Difference.CHANGED_COMMIT, Difference.FOREIGN_COMMIT})


def read_contest(
    row: TableRow, store: ObjectStore, findings: Sequence[Finding]
) -> tuple[FoundCommit, ...]:
    """Return the log's commits from the first contested number to its end; none if none is.

    Raises:
        LogGapError: the log lacks a version below or between them.
        MalformedActionError: one of them cannot be understood.
    """
    contested = [f.version for f in findings if f.difference in CONTESTED and f.version is not None]
    if not contested:
        return ()
    first = min(contested)
    for version in range(row.mirrored_through + 1, first):
        if _read(store, version) is None:  # what is there was found to be SQL's
            raise _gap(row, version, first)
    found: list[FoundCommit] = []
    while (payload := _read(store, first + len(found))) is not None:
        found.append(FoundCommit.read(first + len(found), payload))
    newest = newest_commit(store)
    if newest is not None and newest >= first + len(found):
        raise _gap(row, first + len(found), newest)
    return tuple(found)


def _gap(row: TableRow, missing: int, above: int) -> LogGapError:
    return LogGapError(
        f"The log of {row.full_name} lacks version {missing} and holds version {above}.",
        hint="`deltasql mirror repair` puts what is missing of SQL's own; what a foreign writer "
        "left with a gap cannot be adopted.",
        table=row.full_name,
        version=missing,
    )


def _read(store: ObjectStore, version: int) -> bytes | None:
    """Return a commit whole: half of a foreign commit must never become a version."""
    key = commit_key(version)
    try:
        payload, size = store.get(key), store.head(key).size
    except ObjectNotFoundError:
        return None
    if len(payload) != size:
        raise StorageUnavailableError(f"Only a part of {key} came back.", key=key)
    return payload
