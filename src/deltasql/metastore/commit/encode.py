"""Pure: turn a request that has won its version into the bytes and numbers to store."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import msgspec
import zstandard

from deltasql.catalog.commit_request import CommitRequest
from deltasql.protocol.actions import Action, Add, CommitInfo, Remove
from deltasql.protocol.codec import digest, operation_strings, serialize_actions
from deltasql.protocol.conflicts import is_blind_append, isolation_of
from deltasql.version import __version__

ENGINE_INFO = f"deltasql/{__version__}"
# Level 1 packs commits better than 3 does, and half as fast again.
_LEVEL = 1
_local = threading.local()

# In commitInfo: the transaction over several tables that a commit is a part of.
TRANSACTION_KEY = "deltasqlTransactionId"


@dataclass(frozen=True, slots=True)
class Stamp:
    """What is known only under the lock."""

    timestamp: int
    has_in_commit_timestamp: bool
    transaction_id: str | None


@dataclass(frozen=True, slots=True)
class EncodedCommit:
    """A commit as it will be stored and mirrored."""

    actions: tuple[Action, ...]
    info: CommitInfo
    adds: tuple[Add, ...]
    removes: tuple[Remove, ...]
    payload: bytes
    digest: str
    is_blind_append: bool


def encode_commit(request: CommitRequest, stamp: Stamp) -> EncodedCommit:
    """Return the commit with its commitInfo, time stamps and canonical bytes."""
    given = next((a for a in request.actions if isinstance(a, CommitInfo)), CommitInfo())
    rest = tuple(
        _stamped(action, stamp.timestamp)
        for action in request.actions
        if not isinstance(action, CommitInfo)
    )
    blind = is_blind_append(rest, request.read)
    info = _commit_info(request, stamp, given, rest, blind=blind)
    actions = (info, *rest)
    payload = serialize_actions(actions)
    # in the payload's order: a catalog that is made again from the log gives the same ids' order
    adds = tuple(
        sorted(
            (action for action in rest if isinstance(action, Add)),
            key=lambda add: (add.path, add.dv_id),
        )
    )
    removes = tuple(action for action in rest if isinstance(action, Remove))
    return EncodedCommit(actions, info, adds, removes, payload, digest(payload), blind)


def _stamped(action: Action, timestamp: int) -> Action:
    if isinstance(action, Remove) and action.deletion_timestamp is None:
        return msgspec.structs.replace(action, deletion_timestamp=timestamp)
    return action


def _commit_info(
    request: CommitRequest,
    stamp: Stamp,
    given: CommitInfo,
    rest: tuple[Action, ...],
    *,
    blind: bool,
) -> CommitInfo:
    note = request.note
    extra = dict(given.extra or {})
    if stamp.transaction_id is not None:
        extra[TRANSACTION_KEY] = stamp.transaction_id
    parameters = operation_strings(given.operation_parameters) | operation_strings(note.parameters)
    metrics = operation_strings(given.operation_metrics) | operation_strings(note.metrics)
    return msgspec.structs.replace(
        given,
        timestamp=stamp.timestamp,
        in_commit_timestamp=stamp.timestamp if stamp.has_in_commit_timestamp else None,
        operation=note.operation,
        operation_parameters=parameters,
        operation_metrics=metrics or None,
        read_version=request.read.version if request.read.version >= 0 else None,
        isolation_level=str(isolation_of(rest)),
        is_blind_append=blind,
        user_metadata=note.user_metadata if note.user_metadata is not None else given.user_metadata,
        user_name=note.committer or given.user_name,
        engine_info=ENGINE_INFO,
        txn_id=request.commit_id,
        extra=extra or None,
    )


def compress(payload: bytes) -> bytes:
    """Return a payload as it is stored."""
    compressor = getattr(_local, "compressor", None)
    if compressor is None:
        compressor = _local.compressor = zstandard.ZstdCompressor(level=_LEVEL)
    packed: bytes = compressor.compress(payload)
    return packed


def decompress(stored: bytes, size: int) -> bytes:
    """Return the payload that was stored; `size` is what it must come to."""
    decompressor: Any = getattr(_local, "decompressor", None)
    if decompressor is None:
        decompressor = _local.decompressor = zstandard.ZstdDecompressor()
    payload: bytes = decompressor.decompress(stored, max_output_size=max(size, 1))
    return payload
