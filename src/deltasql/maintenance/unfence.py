"""Lift the fence from the log alone, when the database is lost."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from deltasql.clock import now_ms
from deltasql.errors import MirrorConflictError, OwnershipError
from deltasql.log.commits import read_segment
from deltasql.log.owner_marker import OWNER_KEY
from deltasql.log.table_rules import LogRules, read_rules
from deltasql.protocol.actions import CommitInfo
from deltasql.protocol.codec import serialize_actions
from deltasql.protocol.features import is_fenced, without_fence
from deltasql.protocol.log_names import commit_key
from deltasql.protocol.properties import read_bool
from deltasql.storage.port import Created, ObjectStore, create_once
from deltasql.storage.resolve import open_store
from deltasql.version import __version__


@dataclass(frozen=True, slots=True)
class Unfenced:
    """What was found at a location and what was written there."""

    location: str
    version: int
    was_fenced: bool
    written_version: int | None


def unfence(
    location: str, *, storage_options: Mapping[str, str] | None = None, dry_run: bool = False
) -> Unfenced:
    """Write a commit without the fence after the log's newest version, by put-if-absent.

    The catalog that owns the table must not be in use any more: it would find a commit in the log
    that it does not know, and stop.

    Raises:
        ObjectNotFoundError: there is no Delta log.
        MirrorConflictError: somebody wrote the next version meanwhile; nothing was changed.
    """
    store = open_store(location, storage_options)
    try:
        return _unfence(store, dry_run=dry_run)
    finally:
        store.close()


def _unfence(store: ObjectStore, *, dry_run: bool) -> Unfenced:
    rules = read_rules(store, read_segment(store))
    fenced = is_fenced(rules.protocol)
    if not fenced or dry_run:
        return Unfenced(store.uri, rules.version, fenced, None)
    version = rules.version + 1
    payload = _commit(rules, now_ms())
    if create_once(store, commit_key(version), payload) is Created.DIFFERENT:
        raise MirrorConflictError(
            f"{commit_key(version)} was written by somebody else meanwhile.", version=version
        )
    store.delete(OWNER_KEY)
    return Unfenced(store.uri, rules.version, fenced, version)


def _commit(rules: LogRules, now_ms: int) -> bytes:
    has_time = read_bool(rules.metadata.configuration, "delta.enableInCommitTimestamps")
    if has_time and rules.in_commit_timestamp is None:
        raise OwnershipError("The log has in-commit timestamps, but its newest commit shows none.")
    timestamp = max(now_ms, (rules.in_commit_timestamp or 0) + 1)
    info = CommitInfo(
        timestamp=timestamp,
        in_commit_timestamp=timestamp if has_time else None,
        operation="UNFENCE",
        operation_parameters={},
        read_version=rules.version,
        is_blind_append=False,
        engine_info=f"deltasql/{__version__}",
        txn_id=str(uuid.uuid4()),
    )
    return serialize_actions([info, without_fence(rules.protocol)])
