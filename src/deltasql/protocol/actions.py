"""The actions of the Delta protocol as frozen values, and the identity of a file.

Fields are declared in the alphabetical order of their on-disk (camelCase) names, so that encoding
them as declared is already canonical. `extra` keeps what a newer writer added and we do not know;
it is merged back when the action is encoded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated, Any, ClassVar, TypeAlias

import msgspec

# A key no writer uses: the struct may hold `extra` without claiming a name on disk.
EXTRA_KEY = "~extra"

Long: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

# Milliseconds. From the year 1 to what Delta counts in microseconds: no reader holds more.
EpochMillis: TypeAlias = Annotated[int, msgspec.Meta(ge=-62_135_596_800_000, le=2**63 // 1000)]
Values: TypeAlias = dict[str, str | None]

FileKey: TypeAlias = tuple[str, str]

_HASH_BYTES = 16

# `file://x/y` names a host, `//x` another authority: neither is the path /x
_ABSOLUTE = ("/", "file:")
_LOCAL = re.compile(r"(?:file:(?://)?)?/(?!/)")


def _always() -> dict[str, str]:
    """Return an empty map; a factory of our own, so that msgspec writes the map even when empty."""
    return {}


def _parquet() -> str:
    """Return the one provider; a factory, so that msgspec always writes it."""
    return "parquet"


class _Value(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
):
    """A part of an action: immutable, with unknown fields kept in `extra`."""

    extra: dict[str, Any] | None = msgspec.field(default=None, name=EXTRA_KEY)


class DeletionVector(_Value, frozen=True, kw_only=True):
    """Which rows of a file are deleted."""

    cardinality: Long
    offset: Long | None = None
    path_or_inline_dv: str
    size_in_bytes: Long
    storage_type: str

    @property
    def id(self) -> str:
        """The vector's identity, part of the identity of its file."""
        at = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline_dv}{at}"


class Format(_Value, frozen=True, kw_only=True):
    """The file format of a table; always Parquet."""

    options: dict[str, str] = msgspec.field(default_factory=_always)
    provider: str = msgspec.field(default_factory=_parquet)


class Add(_Value, frozen=True, kw_only=True):
    """A file becomes part of the table."""

    kind: ClassVar[str] = "add"

    base_row_id: Long | None = None
    clustering_provider: str | None = None
    data_change: bool
    default_row_commit_version: Long | None = None
    deletion_vector: DeletionVector | None = None
    modification_time: Long
    partition_values: Values
    path: str
    size: Long
    stats: str | None = None
    tags: Values | None = None

    @property
    def dv_id(self) -> str:
        """Identity of the deletion vector, empty without one."""
        return self.deletion_vector.id if self.deletion_vector else ""


class Remove(_Value, frozen=True, kw_only=True):
    """A file leaves the table and stays behind as a tombstone."""

    kind: ClassVar[str] = "remove"

    base_row_id: Long | None = None
    data_change: bool
    default_row_commit_version: Long | None = None
    deletion_timestamp: Long | None = None
    deletion_vector: DeletionVector | None = None
    extended_file_metadata: bool | None = None
    partition_values: Values | None = None
    path: str
    size: Long | None = None
    stats: str | None = None
    tags: Values | None = None

    @property
    def dv_id(self) -> str:
        """Identity of the deletion vector, empty without one."""
        return self.deletion_vector.id if self.deletion_vector else ""


class Cdc(_Value, frozen=True, kw_only=True):
    """A file of row changes; never part of the table's state."""

    kind: ClassVar[str] = "cdc"

    data_change: bool
    partition_values: Values
    path: str
    size: Long
    tags: Values | None = None


class Metadata(_Value, frozen=True, kw_only=True):
    """The table's schema, partitioning and properties."""

    kind: ClassVar[str] = "metaData"

    configuration: dict[str, str] = msgspec.field(default_factory=_always)
    created_time: Long | None = None
    description: str | None = None
    format: Format
    id: str
    name: str | None = None
    partition_columns: list[str]
    schema_string: str


class Protocol(_Value, frozen=True, kw_only=True):
    """What a client must understand to read and to write the table."""

    kind: ClassVar[str] = "protocol"

    min_reader_version: Long
    min_writer_version: Long
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class Txn(_Value, frozen=True, kw_only=True):
    """How far an application has written; makes its writes idempotent."""

    kind: ClassVar[str] = "txn"

    app_id: str
    last_updated: Long | None = None
    version: Long


class DomainMetadata(_Value, frozen=True, kw_only=True):
    """A named configuration owned by one feature or program."""

    kind: ClassVar[str] = "domainMetadata"

    configuration: str
    domain: str
    removed: bool


class CommitInfo(_Value, frozen=True, kw_only=True):
    """Who committed what, when and why; free in form apart from its timestamps."""

    kind: ClassVar[str] = "commitInfo"

    cluster_id: Any = None
    engine_info: Any = None
    in_commit_timestamp: EpochMillis | None = None
    is_blind_append: Any = None
    isolation_level: Any = None
    job: Any = None
    notebook: Any = None
    operation: Any = None
    operation_metrics: Any = None
    operation_parameters: Any = None
    read_version: Any = None
    tags: Any = None
    timestamp: Long | None = None
    txn_id: Any = None
    user_id: Any = None
    user_metadata: Any = None
    user_name: Any = None


class CheckpointMetadata(_Value, frozen=True, kw_only=True):
    """Names the version of a V2 checkpoint; appears in checkpoints only."""

    kind: ClassVar[str] = "checkpointMetadata"

    tags: Values | None = None
    version: Long


class Sidecar(_Value, frozen=True, kw_only=True):
    """A file that holds a part of a V2 checkpoint; appears in checkpoints only."""

    kind: ClassVar[str] = "sidecar"

    modification_time: Long
    path: str
    size_in_bytes: Long
    tags: Values | None = None


class UnknownAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action of a newer protocol: kept, never interpreted."""

    body: Any
    kind: str


Action: TypeAlias = (
    Add
    | Remove
    | Cdc
    | Metadata
    | Protocol
    | Txn
    | DomainMetadata
    | CommitInfo
    | CheckpointMetadata
    | Sidecar
    | UnknownAction
)

ACTION_TYPES: tuple[type[_Value], ...] = (
    CommitInfo,
    Protocol,
    Metadata,
    DomainMetadata,
    Txn,
    Add,
    Remove,
    Cdc,
    CheckpointMetadata,
    Sidecar,
)


def path_key(path: str) -> str:
    """Return the path verbatim, except that an absolute local path gets one spelling.

    `/x`, `file:/x` and `file:///x` are one place; relative paths and URIs of other schemes are
    compared byte by byte, as every reader does.
    """
    found = _LOCAL.match(path)
    return path if found is None else "file:///" + path[found.end() :]


def hash_key(key: str, dv_id: str) -> bytes:
    """Return what SQL knows a file by: 16 bytes for a path key and a deletion vector's id.

    Cryptographic, because two files of one hash would be taken for one, and paths are anybody's.
    """
    return blake2b(f"{key}\0{dv_id}".encode(), digest_size=_HASH_BYTES).digest()


def file_hashes(path: str, dv_id: str) -> tuple[bytes, bytes | None]:
    """Return the hash of a file, and for a file with a vector that of its path alone."""
    key = path_key(path)
    return hash_key(key, dv_id), hash_key(key, "") if dv_id else None


def hash_files(files: Sequence[Add | Remove]) -> list[bytes]:
    """Return the hash of each file; see `file_hashes`."""
    return [
        blake2b(f"{file.path}\0".encode(), digest_size=_HASH_BYTES).digest()
        if file.deletion_vector is None and not file.path.startswith(_ABSOLUTE)
        else file_hashes(file.path, file.dv_id)[0]
        for file in files
    ]


def hash_paths(files: Sequence[Add | Remove]) -> list[bytes | None]:
    """Return the hash of the path of each file that has a vector."""
    return [
        None if file.deletion_vector is None else hash_key(path_key(file.path), "")
        for file in files
    ]


def file_key(action: Add | Remove) -> FileKey:
    """Return (path key, deletion vector id) of an add or remove."""
    return path_key(action.path), action.dv_id
