"""The commits of a task, fetched and parsed into rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pyarrow as pa

from deltasql.errors import (
    MalformedActionError,
    ObjectNotFoundError,
    SchemaError,
    SourceChangedError,
)
from deltasql.imports.load.window import DOMAIN_SCHEMA, TXN_SCHEMA, VERSION_SCHEMA, VersionWindow
from deltasql.imports.plan.commit_files import CommitFile
from deltasql.imports.read.rows import add_rows, check_files, remove_rows
from deltasql.imports.validate.file_history import EventCollector
from deltasql.metastore.commit.encode import TRANSACTION_KEY, compress, log_token
from deltasql.protocol.actions import (
    Action,
    Add,
    Cdc,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Txn,
    hash_files,
)
from deltasql.protocol.codec import CommitParts, decode_parts, digest, dump_values
from deltasql.protocol.features import check_protocol, require_importable
from deltasql.protocol.validate import check_metadata, check_vector
from deltasql.storage.port import ObjectStore

_THREADS = 32

# What is fetched ahead waits in memory.
_AHEAD_BYTES = 32 * 1024 * 1024

_CHANGING = (Metadata, Protocol, DomainMetadata, Cdc)
_NO_INFO = CommitInfo()
_MOST = 2**63
# So that the times of the commits behind it stay within what readers hold.
_LATEST_TIME = 253_402_300_799_999

_File = TypeVar("_File", Add, Remove)

_LENIENT = "`lenient=True` accepts a protocol that breaks the letter of the specification."
_CORRECT = "Let the engine that wrote this metaData write a right one, and import the table then."


def fetch_in_order(
    store: ObjectStore, files: Sequence[CommitFile]
) -> Iterator[tuple[CommitFile, bytes]]:
    """Yield each commit with its bytes.

    Raises:
        SourceChangedError: one is gone, or has another size than was listed.
    """
    if len(files) == 1 or store.local_path(files[0].key) is not None:
        for file in files:
            yield file, _fetch(store, file)
        return
    with ThreadPoolExecutor(min(_THREADS, len(files))) as pool:
        waiting: deque[tuple[CommitFile, Future[bytes]]] = deque()
        ahead = 0
        for file in files:
            waiting.append((file, pool.submit(_fetch, store, file)))
            ahead += file.size
            while waiting and (ahead > _AHEAD_BYTES or len(waiting) > 2 * _THREADS):
                first, fetched = waiting.popleft()
                ahead -= first.size
                yield first, fetched.result()
        for first, fetched in waiting:
            yield first, fetched.result()


def _fetch(store: ObjectStore, file: CommitFile) -> bytes:
    try:
        payload = store.get(file.key)
    except ObjectNotFoundError as error:
        raise SourceChangedError(
            f"Version {file.version} was listed at {store.uri} and is gone.", version=file.version
        ) from error
    if len(payload) != file.size:
        raise SourceChangedError(
            f"Version {file.version} at {store.uri} has {len(payload)} bytes; it was listed with "
            f"{file.size}.",
            version=file.version,
        )
    return payload


def version_row(file: CommitFile, payload: bytes, parts: CommitParts) -> tuple[Any, ...]:
    """Return one commit in the columns of VERSION_SCHEMA."""
    adds, removes, others = parts.adds, parts.removes, parts.others
    info = next((a for a in others if type(a) is CommitInfo), _NO_INFO)
    found = digest(payload)
    return (
        file.version,
        file.modified_ms,
        _text(info.user_name),
        _text(info.operation) or "UNKNOWN",
        dump_values(info.operation_parameters) if info.operation_parameters else "{}",
        dump_values(info.operation_metrics) if info.operation_metrics else "{}",
        _commit_time(file.version, info),
        _number(info.read_version),
        _is_blind(info, parts),
        _text(info.txn_id) or log_token(file.version, found),
        _transaction(info),
        len(adds),
        len(removes),
        len(adds) + len(removes) + len(others),
        _total([add.size for add in adds]),
        _total([remove.size or 0 for remove in removes]),
        _text(info.user_metadata),
        compress(payload),
        len(payload),
        found,
    )


def _commit_time(version: int, info: CommitInfo) -> int | None:
    """Return the time that a commit gives itself, if commits can follow: theirs are later still.

    Raises:
        MalformedActionError: it lies behind the year 9999.
    """
    time = info.in_commit_timestamp
    if time is not None and time > _LATEST_TIME:
        raise MalformedActionError(
            f"Version {version} has the in-commit timestamp {time}, which lies behind the year "
            "9999.",
            version=version,
        )
    return time


def _total(sizes: list[int]) -> int:
    """Return a sum as far as a database can count."""
    return max(-_MOST, min(sum(sizes), _MOST - 1))


def _is_blind(info: CommitInfo, parts: CommitParts) -> bool:
    if isinstance(info.is_blind_append, bool):
        return info.is_blind_append
    return not parts.removes and not any(isinstance(one, _CHANGING) for one in parts.others)


def _transaction(info: CommitInfo) -> str | None:
    found = (info.extra or {}).get(TRANSACTION_KEY)
    return found if isinstance(found, str) else None


def _text(value: Any) -> str | None:
    """No database keeps a NUL; what a commit tells of itself is free in form."""
    if value is None:
        return None
    text = value if isinstance(value, str) else dump_values(value)
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _number(value: Any) -> int | None:
    return value if type(value) is int and -_MOST <= value < _MOST else None


@dataclass(slots=True)
class _Files(Generic[_File]):
    """The adds or the removes of a window, in the order of the log."""

    actions: list[_File] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)

    def take(self, version: int, actions: list[_File], keys: list[bytes]) -> None:
        self.actions += actions
        self.keys += keys
        self.versions += [version] * len(actions)


@dataclass(slots=True)
class WindowReader:
    """Collects versions in order; `window` gives what came together."""

    source: str
    lenient: bool = False
    _rows: list[tuple[Any, ...]] = field(default_factory=list)
    _adds: _Files[Add] = field(default_factory=_Files)
    _removes: _Files[Remove] = field(default_factory=_Files)
    _txns: list[tuple[Any, ...]] = field(default_factory=list)
    _domains: list[tuple[Any, ...]] = field(default_factory=list)
    _changes: list[tuple[int, Metadata | Protocol]] = field(default_factory=list)
    _events: EventCollector = field(default_factory=EventCollector)

    def take(self, file: CommitFile, payload: bytes) -> None:
        """Read one commit.

        Raises:
            MalformedActionError: names the version, the line, the byte and the reason.
            UnsupportedFeatureError: names the features.
        """
        if not payload or payload.isspace():
            raise MalformedActionError(
                f"The commit {file.key} at {self.source} is empty.",
                hint="Bring it back from a backup.",
                version=file.version,
            )
        parts = decode_parts(payload, version=file.version, lenient=self.lenient, schemaless=True)
        self._others(file.version, parts.others)
        _check_vectors(file.version, parts.adds, parts.removes)
        self._events.take(file.version, parts.adds, parts.removes)
        self._take_files(file.version, parts.adds, parts.removes)
        self._rows.append(version_row(file, payload, parts))

    def window(self) -> VersionWindow:
        """Return the versions taken so far as one window."""
        adds = add_rows(self._adds.actions, self._adds.keys, self._adds.versions)
        removes = remove_rows(self._removes.actions, self._removes.keys, self._removes.versions)
        check_files(adds, "added_version")
        check_files(removes, "removed_version")
        return VersionWindow(
            self._rows[0][0],
            self._rows[-1][0],
            table_of(self._rows, VERSION_SCHEMA),
            adds,
            removes,
            table_of(self._txns, TXN_SCHEMA),
            table_of(self._domains, DOMAIN_SCHEMA),
            self._events.table(),
            tuple(self._changes),
        )

    def _take_files(self, version: int, adds: list[Add], removes: list[Remove]) -> None:
        """Take the files of one commit, which may speak of each only once."""
        add_keys, remove_keys = hash_files(adds), hash_files(removes)
        if not self.lenient and len({*add_keys, *remove_keys}) < len(adds) + len(removes):
            raise _twice_error(version, adds, removes)
        self._adds.take(version, adds, add_keys)
        self._removes.take(version, removes, remove_keys)

    def _others(self, version: int, actions: Sequence[Action]) -> None:
        if len(actions) == 1 and type(actions[0]) is CommitInfo:
            return
        txns: dict[str, tuple[Any, ...]] = {}
        domains: dict[str, tuple[Any, ...]] = {}
        changes: dict[type, Metadata | Protocol] = {}
        for action in actions:
            match action:
                case Txn(app_id=app):
                    self._once(version, "txn", app in txns)
                    txns[app] = (version, app, action.version, action.last_updated)
                case DomainMetadata(domain=domain):
                    self._once(version, "domainMetadata", domain in domains)
                    domains[domain] = (version, domain, action.configuration, action.removed)
                case Metadata() | Protocol():
                    self._once(version, action.kind, type(action) in changes)
                    check_change(action, version, self.source, lenient=self.lenient)
                    changes[type(action)] = action
        self._txns += txns.values()
        self._domains += domains.values()
        self._changes += [(version, change) for change in changes.values()]

    def _once(self, version: int, kind: str, again: bool) -> None:
        if again and not self.lenient:
            raise MalformedActionError(
                f"Version {version} of {self.source} has the same {kind} more than once.",
                hint="The protocol forbids it; `lenient=True` takes the last one.",
                version=version,
            )


def _twice_error(
    version: int, adds: Sequence[Add], removes: Sequence[Remove]
) -> MalformedActionError:
    seen: dict[bytes, str] = {}
    named: tuple[tuple[str, Sequence[Add | Remove]], ...] = (("removes", removes), ("adds", adds))
    for verb, files in named:
        for file, key in zip(files, hash_files(files), strict=True):
            if key in seen:
                verbs = verb if seen[key] == verb else "adds and removes"
                return MalformedActionError(
                    f"Version {version} {verbs} {file.path} more than once.",
                    hint="The protocol forbids it; `lenient=True` takes the last add, else the "
                    "remove.",
                    version=version,
                    path=file.path,
                )
            seen[key] = verb
    raise AssertionError("every file is named once")


def check_change(action: Metadata | Protocol, version: int, source: str, *, lenient: bool) -> None:
    """Refuse a protocol or metadata that we cannot go by.

    Raises:
        UnsupportedFeatureError: names the features.
        MalformedActionError: says what is wrong.
    """
    if isinstance(action, Protocol):
        require_importable(action, f"{source} at version {version}")
        wrong = None if lenient else check_protocol(action)
    else:
        wrong = _wrong_metadata(action)
    if wrong is not None:
        raise MalformedActionError(
            f"Version {version} of {source} is not valid: {wrong}.",
            hint=_LENIENT if isinstance(action, Protocol) else _CORRECT,
            version=version,
        )


def _wrong_metadata(action: Metadata) -> str | None:
    try:
        return check_metadata(action)
    except SchemaError as error:
        return f"{error.message[:1].lower()}{error.message[1:].removesuffix('.')}"


def read_window(
    store: ObjectStore, files: Sequence[CommitFile], *, lenient: bool = False
) -> VersionWindow:
    """Fetch, parse and fold these commits.

    Raises:
        SourceChangedError: a commit is gone, or another than was listed.
        MalformedActionError, UnsupportedFeatureError: see `WindowReader.take`.
    """
    reader = WindowReader(store.uri, lenient)
    for file, payload in fetch_in_order(store, files):
        reader.take(file, payload)
    return reader.window()


def window_of(source: str, version: int, payload: bytes, *, now_ms: int) -> VersionWindow:
    """Return one commit as a window; the time is that of its file.

    Raises:
        MalformedActionError, UnsupportedFeatureError: see `WindowReader.take`.
    """
    reader = WindowReader(source, lenient=True)
    reader.take(CommitFile(version, len(payload), now_ms), payload)
    return reader.window()


def _check_vectors(version: int, adds: Sequence[Add], removes: Sequence[Remove]) -> None:
    vectored = [add for add in adds if add.deletion_vector is not None]
    wrong = [check_vector(add) for add in vectored]
    wrong += [check_vector(one) for one in removes if one.deletion_vector is not None]
    reason = next(filter(None, wrong), None)
    if reason is not None:
        raise MalformedActionError(f"Version {version} is not valid: {reason}.", version=version)


def table_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Return rows as Arrow with this schema."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
