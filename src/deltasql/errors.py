"""Every error a user can meet, with its code, its exit code and what to do about it.

    DeltaSqlError
      ConfigError                BadUriError  MissingExtraError  BadArgumentError  ListenError
                                 PoolModeError
      ProtocolError              MalformedActionError  InvalidCommitError  UnsupportedFeatureError
                                 LogGapError  SchemaError  ConstraintViolationError
                                 BadPredicateError  UnsafePathError  CorruptDataError
      CatalogError               TableNotFoundError  TableExistsError  VersionNotFoundError
                                 TableStateError  CommitConflictError*  CatalogUnavailableError*
                                 CommitUnknownError*  SchemaOutdatedError  SchemaMissingError
                                 CatalogCorruptError  PermissionDeniedError  LoginRefusedError
                                 CatalogReplacedError
      StorageError               ObjectNotFoundError  ObjectExistsError  AccessDeniedError
                                 StorageUnavailableError*  UnsafeStoreError
      MirrorError                MirrorConflictError  MirrorLagError*  OwnershipError  RecommitError
                                 CheckpointError  LeaseLostError*
      OutputError
      TableImportError           SourceChangedError*  ImportDifferenceError  NotResumableError
                                 CutoverError
      SparkJobError  StreamError  ChangeDataMissingError

(* = trying again may help.) Messages are one sentence and name the table, version, key or line;
they never hold a secret. `context` carries the same facts for machines.
"""

from __future__ import annotations

from deltasql.errors.base import DeltaSqlError, is_passing
from deltasql.errors.catalog import (
    CatalogCorruptError,
    CatalogError,
    CatalogReplacedError,
    CatalogUnavailableError,
    CommitConflictError,
    CommitUnknownError,
    LoginRefusedError,
    PermissionDeniedError,
    SchemaMissingError,
    SchemaOutdatedError,
    TableExistsError,
    TableNotFoundError,
    TableStateError,
    VacuumedError,
    VersionNotFoundError,
)
from deltasql.errors.config import (
    BadArgumentError,
    BadUriError,
    ConfigError,
    ListenError,
    MissingExtraError,
    OutputError,
    PoolModeError,
)
from deltasql.errors.imports import (
    CutoverError,
    ImportDifferenceError,
    NotResumableError,
    SourceChangedError,
    TableImportError,
)
from deltasql.errors.mirror import (
    CheckpointError,
    LeaseLostError,
    MirrorConflictError,
    MirrorError,
    MirrorLagError,
    OwnershipError,
    RecommitError,
)
from deltasql.errors.protocol import (
    BadPredicateError,
    ConstraintViolationError,
    CorruptDataError,
    InvalidCommitError,
    LogGapError,
    MalformedActionError,
    ProtocolError,
    SchemaError,
    UnsafePathError,
    UnsupportedFeatureError,
)
from deltasql.errors.spark import ChangeDataMissingError, SparkJobError, StreamError
from deltasql.errors.storage import (
    AccessDeniedError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
    UnsafeStoreError,
)

__all__ = [
    "AccessDeniedError",
    "BadArgumentError",
    "BadPredicateError",
    "BadUriError",
    "CatalogCorruptError",
    "CatalogError",
    "CatalogReplacedError",
    "CatalogUnavailableError",
    "ChangeDataMissingError",
    "CheckpointError",
    "CommitConflictError",
    "CommitUnknownError",
    "ConfigError",
    "ConstraintViolationError",
    "CorruptDataError",
    "CutoverError",
    "DeltaSqlError",
    "ImportDifferenceError",
    "InvalidCommitError",
    "LeaseLostError",
    "ListenError",
    "LogGapError",
    "LoginRefusedError",
    "MalformedActionError",
    "MirrorConflictError",
    "MirrorError",
    "MirrorLagError",
    "MissingExtraError",
    "NotResumableError",
    "ObjectExistsError",
    "ObjectNotFoundError",
    "OutputError",
    "OwnershipError",
    "PermissionDeniedError",
    "PoolModeError",
    "ProtocolError",
    "RecommitError",
    "SchemaError",
    "SchemaMissingError",
    "SchemaOutdatedError",
    "SourceChangedError",
    "SparkJobError",
    "StorageError",
    "StorageUnavailableError",
    "StreamError",
    "TableExistsError",
    "TableImportError",
    "TableNotFoundError",
    "TableStateError",
    "UnsafePathError",
    "UnsafeStoreError",
    "UnsupportedFeatureError",
    "VacuumedError",
    "VersionNotFoundError",
    "is_passing",
]
