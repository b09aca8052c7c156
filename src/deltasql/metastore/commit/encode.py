"""Commits as the bytes that are stored: encoded, compressed, and read back."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import msgspec
import zstandard

from deltasql.database.port import DbTransaction
from deltasql.errors import CatalogCorruptError, VersionNotFoundError
from deltasql.metastore.commit.request import CommitRequest
from deltasql.protocol.actions import Action, Add, CommitInfo, Remove
from deltasql.protocol.codec import decode_commit, digest, operation_strings, serialize_actions
from deltasql.protocol.conflicts import is_blind_append, isolation_of
from deltasql.version import __version__

ENGINE_INFO = f"deltasql/{__version__}"

# Level 1 packs commits better than 3 does, and half as fast again.
_LEVEL = 1
_local = threading.local()

# In commitInfo: the transaction over several tables that a commit is a part of.
TRANSACTION_KEY = "deltasqlTransactionId"

CHUNK_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class CommitTime:
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


def encode_commit(request: CommitRequest, stamp: CommitTime) -> EncodedCommit:
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
    stamp: CommitTime,
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


def insert_chunks(
    tx: DbTransaction, table_id: str, version: int | None, packed: bytes
) -> bytes | None:
    """Store a big payload in chunks and return None; return a small one for its version's row."""
    if len(packed) <= CHUNK_BYTES:
        return packed
    for number, start in enumerate(range(0, len(packed), CHUNK_BYTES)):
        chunk = packed[start : start + CHUNK_BYTES]
        tx.execute(
            "insert_payload_chunk", table_id=table_id, version=version, chunk=number, payload=chunk
        )
    return None


@dataclass(frozen=True, slots=True)
class StoredCommit:
    """A version's exact bytes, and when it was committed."""

    version: int
    committed_at: int
    payload: bytes


def read_commits(
    tx: DbTransaction, table_id: str, first: int, last: int, most_bytes: int
) -> list[StoredCommit]:
    """Return versions from `first` on, up to `last` or to so many bytes, and at least one."""
    sizes = tx.fetch_all("payload_sizes", table_id=table_id, first=first, last=last)
    total, upto = 0, first
    for version, size in sizes:
        total += size
        if total > most_bytes and version > first:
            break
        upto = version
    rows = tx.fetch_all("payloads", table_id=table_id, first=first, last=upto)
    return [
        StoredCommit(version, at, _checked(tx, table_id, version, (stored, size, expected)))
        for version, at, stored, size, expected in rows
    ]


def read_payload(tx: DbTransaction, table_id: str, version: int) -> bytes:
    """Return the bytes of a version exactly as they were committed.

    Raises:
        VersionNotFoundError: the catalog has no such version.
        CatalogCorruptError: the stored bytes do not have their digest.
    """
    rows = tx.fetch_all("payload", table_id=table_id, version=version)
    if not rows:
        raise VersionNotFoundError(f"Table {table_id} has no version {version}.", version=version)
    stored, size, expected = rows[0]
    return _checked(tx, table_id, version, (stored, size, expected))


def _checked(tx: DbTransaction, table_id: str, version: int, row: tuple[Any, int, str]) -> bytes:
    stored, size, expected = row
    if stored is None:
        chunks = tx.fetch_all("payload_chunks", table_id=table_id, version=version)
        stored = b"".join(bytes(chunk) for (chunk,) in chunks)
    payload = unpack(bytes(stored), size, expected)
    if payload is None:
        raise _corrupt(table_id, version)
    return payload


def unpack(stored: bytes, size: int, expected: str) -> bytes | None:
    """Return stored bytes as they were committed, or None where they do not have their digest."""
    payload = stored
    # dl_append stores plain bytes: a commit begins with a brace, a compressed frame never does
    if not payload.startswith(b"{"):
        try:
            payload = decompress(payload, size)
        except zstandard.ZstdError:
            return None
    return payload if digest(payload) == expected else None


def _corrupt(table_id: str, version: int) -> CatalogCorruptError:
    return CatalogCorruptError(
        f"The stored bytes of table {table_id}, version {version}, do not have their digest.",
        table_id=table_id,
        version=version,
    )


def log_token(version: int, made: str) -> str:
    """Return the token of a commit that names none, from its version and its digest."""
    return f"import-{version}-{made[:16]}"


@dataclass(frozen=True, slots=True)
class FoundCommit:
    """A commit that the log holds, understood."""

    version: int
    actions: tuple[Action, ...] = field(repr=False)
    payload: bytes = field(repr=False)

    @classmethod
    def read(cls, version: int, payload: bytes) -> FoundCommit:
        """Return the commit in a file's bytes.

        Raises:
            MalformedActionError: it cannot be understood.
        """
        return cls(version, tuple(decode_commit(payload, version=version, lenient=True)), payload)

    @property
    def info(self) -> CommitInfo:
        """What the commit tells of itself."""
        return next((a for a in self.actions if isinstance(a, CommitInfo)), CommitInfo())

    @property
    def operation(self) -> str:
        """What the commit did, in its own word."""
        return str(self.info.operation) if self.info.operation else "UNKNOWN"

    @property
    def commit_id(self) -> str:
        """Its own token, so that whoever sends it again finds that it was made."""
        token = self.info.txn_id
        return str(token) if token else log_token(self.version, digest(self.payload))

    @property
    def num_adds(self) -> int:
        """How many files it adds."""
        return sum(isinstance(action, Add) for action in self.actions)
