"""What the catalog refuses, or cannot do now."""

from __future__ import annotations

from deltasql.errors.base import DeltaSqlError


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
