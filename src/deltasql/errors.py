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

from collections.abc import Iterable, Iterator
from typing import ClassVar

_LONGEST = 1000

_LIKENESS = 0.75


class DeltaSqlError(Exception):
    """Base of all deltasql errors."""

    code: ClassVar[str] = "DS000"
    retryable: ClassVar[bool] = False
    hint: ClassVar[str] = ""
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str = "", /, *, hint: str | None = None, **context: object) -> None:
        super().__init__(_one_line(message or (type(self).__doc__ or "").splitlines()[0]))
        self.context = context
        self.advice = self.hint if hint is None else hint
        self.add_note(f"[{self.code}] hint: {self.advice}" if self.advice else f"[{self.code}]")

    @property
    def message(self) -> str:
        """What is wrong, in one sentence."""
        return str(self.args[0])

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling between processes with context and advice intact."""
        return _rebuild, (type(self), self.message, self.advice, self.context)


def is_retryable_code(told: str | None) -> bool:
    """Tell whether `CODE: message` is of an error that trying again may help."""
    code = (told or "").partition(":")[0]
    return any(kind.code == code and kind.retryable for kind in _kinds(DeltaSqlError))


def _kinds(kind: type[DeltaSqlError]) -> Iterator[type[DeltaSqlError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


def _one_line(text: str) -> str:
    """Return a message as one printable line: the path or name in it may come from a hostile log.

    Unprinted characters are escaped, so that no text moves a terminal or fakes a line of a log
    file; of a very long text both ends are told.
    """
    if not text.isprintable():
        text = "".join(
            each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
        )
    half = _LONGEST // 2 - 2
    return text if len(text) <= _LONGEST else f"{text[:half]} … {text[-half:]}"


def _rebuild(
    kind: type[DeltaSqlError], message: str, advice: str, context: dict[str, object]
) -> DeltaSqlError:
    return kind(message, hint=advice, **context)


class CatalogError(DeltaSqlError):
    """The SQL catalog refused or failed."""

    code = "DS300"


class TableNotFoundError(CatalogError, LookupError):
    """There is no such table in the catalog."""

    code = "DS301"
    hint = "List the tables with `deltasql tables`."


class TableExistsError(CatalogError):
    """The name or the location is taken."""

    code = "DS302"
    hint = "Choose another name or location."


class VersionNotFoundError(CatalogError, LookupError):
    """The table has no such version."""

    code = "DS303"
    hint = "See the versions with `deltasql history`."


class TableStateError(CatalogError):
    """The table's state does not allow this operation."""

    code = "DS304"
    exit_code = 4
    hint = "`deltasql show` tells the table's state and what it allows."


class CommitConflictError(CatalogError):
    """Another commit got there first and contradicts this one."""

    code = "DS305"
    retryable = True
    exit_code = 4
    hint = "Read the table again and repeat the operation on its new state."


class CatalogUnavailableError(CatalogError):
    """The database does not answer."""

    code = "DS306"
    retryable = True
    exit_code = 6
    hint = "Check that the database runs and can be reached, then try again."


class CommitUnknownError(CatalogError):
    """The connection was lost during COMMIT and the outcome could not be learned."""

    code = "DS307"
    retryable = True
    exit_code = 6
    hint = "Send the same commit again with the same commit_id: it is never applied twice."


class CatalogReplacedError(CatalogError):
    """The files of the catalog database were replaced or removed while it was in use."""

    code = "DS314"
    hint = (
        "Stop all processes that use the catalog. If the database file is a backup that you have "
        "restored, delete the files that end in -wal and -shm beside it, then start again."
    )


class SchemaOutdatedError(CatalogError):
    """The catalog's SQL schema and this version of deltasql do not fit."""

    code = "DS308"
    hint = "Run `deltasql db migrate`, or install a newer deltasql when the schema is newer."


class SchemaMissingError(CatalogError):
    """The database holds no deltasql catalog."""

    code = "DS309"
    hint = (
        "Check the URI. A new catalog is made by `deltasql db init`, or by the first create or "
        "import."
    )


class VacuumedError(CatalogError):
    """The operation needs data files that vacuum has deleted."""

    code = "DS313"
    hint = "Choose a newer version; `deltasql history` lists them."


class CatalogCorruptError(CatalogError):
    """The catalog is damaged or contradicts itself."""

    code = "DS310"
    hint = "Stop writing to the table and restore the database from a backup."


class PermissionDeniedError(CatalogError):
    """The database role lacks a right that this needs."""

    code = "DS311"
    hint = (
        "The guide on least rights has a script that grants what readers, writers, workers and "
        "operators need."
    )


class LoginRefusedError(CatalogUnavailableError):
    """The server refused the login, has no such role or database, or is not proven to be it."""

    code = "DS312"
    retryable = False
    exit_code = 1
    hint = "Check the user, the password, the database and the TLS parameters of the URI."


class ConfigError(DeltaSqlError, ValueError):
    """A setting, option or URI is wrong."""

    code = "DS100"
    exit_code = 2
    hint = "Check the setting's name and value in the settings reference."


class BadUriError(ConfigError):
    """The URI is not one that deltasql understands."""

    code = "DS101"
    hint = "Use deltasql://sqlite/<file>, deltasql://postgres/<database>/<schema> or postgresql://…"


class MissingExtraError(ConfigError):
    """An optional package is not installed."""

    code = "DS102"
    hint = "Install the package that the message names."


class BadArgumentError(ConfigError):
    """An argument has a value that cannot be used."""

    code = "DS103"
    hint = "See the documentation of the command or the function."


class OutputError(DeltaSqlError):
    """What a command prints could not be written."""

    code = "DS105"
    hint = "What the command did is done; only its output is lost. Check the disk or the pipe."


class ListenError(ConfigError):
    """The address to listen on is taken, or not one of this machine."""

    code = "DS104"
    hint = "Choose another address to listen on, or stop the program that has it."


class PoolModeError(ConfigError):
    """PostgreSQL was reached through a connection pool that shares server sessions."""

    code = "DS106"
    hint = (
        "Connect to PostgreSQL directly, or to a pool in session mode (PgBouncer: "
        "pool_mode = session)."
    )


class TableImportError(DeltaSqlError):
    """An import cannot begin, go on or end."""

    code = "DS600"
    hint = "The source was not touched; see the guide on migration."


class SourceChangedError(TableImportError):
    """A file of the source is gone, or is not what it was when it was listed."""

    code = "DS601"
    retryable = True
    exit_code = 5
    hint = "The source's own cleanup or another writer changed it; run the import again."


class ImportDifferenceError(TableImportError):
    """What was imported is not what the source's log says."""

    code = "DS602"
    exit_code = 3
    hint = "The table stays read-only; look at the differences, then accept them or import again."


class NotResumableError(TableImportError):
    """The table in SQL is not an earlier part of this source."""

    code = "DS603"
    exit_code = 4
    hint = "Import under another name, or replace the table with `force=True`."


class CutoverError(TableImportError):
    """The log cannot be taken over now."""

    code = "DS604"
    exit_code = 4
    hint = "Nothing was claimed; other writers may go on. Import again with `resume=True` first."


class MirrorError(DeltaSqlError):
    """The mirror of the log refused or failed."""

    code = "DS500"


class MirrorConflictError(MirrorError):
    """`_delta_log` holds other bytes for this version."""

    code = "DS501"
    exit_code = 4
    hint = "Another writer bypassed SQL; compare both sides before you decide which one stays."


class MirrorLagError(MirrorError):
    """The log did not reach the version in time."""

    code = "DS502"
    retryable = True
    exit_code = 6
    hint = "See `deltasql show`; the commit is safe in SQL and will be mirrored."


class CheckpointError(MirrorError):
    """A checkpoint is not what SQL has, or cannot be read."""

    code = "DS504"
    hint = "The commits are safe; `deltasql mirror repair` writes the checkpoint again."


class LeaseLostError(MirrorError):
    """Another worker has taken the work over."""

    code = "DS505"
    retryable = True
    exit_code = 6
    hint = "Nothing is wrong: the other worker goes on; try again later if you must."


class RecommitError(MirrorError):
    """A foreign commit in the log cannot be committed again above SQL's versions."""

    code = "DS506"
    exit_code = 4
    hint = (
        "Nothing was changed. `deltasql mirror repair` with `replace=True` lets SQL win and "
        "keeps the foreign commits aside."
    )


class OwnershipError(MirrorError):
    """The log belongs to another catalog, or is ahead of SQL."""

    code = "DS503"
    exit_code = 4
    hint = "The database may be a restored or cloned copy; nothing was written to the log."


class ProtocolError(DeltaSqlError):
    """Something breaks the Delta protocol."""

    code = "DS200"
    exit_code = 5


class MalformedActionError(ProtocolError):
    """A commit or a checkpoint holds something that is not valid in Delta."""

    code = "DS201"
    hint = "The log is damaged or not of a Delta writer; bring the file back from a backup."


class InvalidCommitError(ProtocolError):
    """The actions of a commit contradict each other or the table."""

    code = "DS202"
    exit_code = 1
    hint = "Nothing was committed; correct the actions and commit again."


class UnsupportedFeatureError(ProtocolError):
    """The table uses a feature that this operation does not support."""

    code = "DS203"
    exit_code = 1
    hint = "Use an engine that supports the feature, or drop the feature from the table."


class LogGapError(ProtocolError):
    """A version is missing from the log."""

    code = "DS204"


class SchemaError(ProtocolError):
    """Data or schema does not fit the table."""

    code = "DS205"
    exit_code = 1
    hint = "Cast or add the columns, or change the table with alter."


class ConstraintViolationError(ProtocolError):
    """A row breaks a constraint of the table."""

    code = "DS206"
    exit_code = 1
    hint = "Nothing was committed; correct the rows and write again."


class BadPredicateError(ProtocolError, ValueError):
    """The filter cannot be understood."""

    code = "DS207"
    exit_code = 2
    hint = "Filters are comparisons joined by AND, OR, NOT, like day = '2026-01-01' AND id > 5."


class UnsafePathError(ProtocolError):
    """A path in the log leads outside the table."""

    code = "DS208"
    hint = "If the table is a shallow clone that you trust, allow the other location explicitly."


class CorruptDataError(ProtocolError):
    """A data file or deletion vector is damaged or missing."""

    code = "DS209"
    hint = "Restore the object from a backup, or restore the table to a version without it."


class SparkJobError(DeltaSqlError):
    """A job that ran on Spark failed."""

    code = "DS700"
    hint = "Nothing was committed; mend the cause and run it again."


class StreamError(DeltaSqlError):
    """A stream cannot go on from where it is."""

    code = "DS710"
    exit_code = 4
    hint = "Start a new query with a new checkpoint."


class ChangeDataMissingError(DeltaSqlError):
    """The changes of a version were not recorded."""

    code = "DS711"
    exit_code = 4
    hint = "The history shows where delta.enableChangeDataFeed was set; begin at such a version."


class StorageError(DeltaSqlError):
    """The object store refused or failed."""

    code = "DS400"


class ObjectNotFoundError(StorageError, LookupError):
    """There is no such object."""

    code = "DS401"
    hint = "Check the location; the object may have been deleted by another program."


class ObjectExistsError(StorageError):
    """The object is there already."""

    code = "DS402"


class AccessDeniedError(StorageError):
    """The store refused the credentials."""

    code = "DS403"
    hint = "Check the credentials and permissions for this location."


class StorageUnavailableError(StorageError):
    """The store did not answer, or answered that it cannot now; the outcome is unknown."""

    code = "DS404"
    retryable = True
    exit_code = 6
    hint = "Check that the store can be reached; deltasql tries again by itself where it can."


class UnsafeStoreError(StorageError):
    """The store ignores the conditions that protect commits."""

    code = "DS405"
    hint = "Use a store with conditional writes, or make sure that no other program writes there."


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like `name`, whatever its case; None if none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 (only an error needs it)

    folded = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), folded, n=1, cutoff=_LIKENESS)
    return folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return the hint for a name that does not exist: the nearest one, then what else to do."""
    meant = nearest(name, known)
    return f"Did you mean {meant}? {otherwise}" if meant else otherwise


def missing_table_error(name: str, names: Iterable[str]) -> TableNotFoundError:
    """Return the error of a name that none of the tables has."""
    hint = did_you_mean(name, names, TableNotFoundError.hint)
    return TableNotFoundError(f"There is no table {name!r} in the catalog.", hint=hint, table=name)
