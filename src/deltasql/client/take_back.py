"""Take back an import: what SQL has of a log that was never its own goes, the log stays."""

from __future__ import annotations

from deltasql.catalog.copies import Copies
from deltasql.catalog.rows import TableRow
from deltasql.crash import crash_point
from deltasql.errors import TableStateError
from deltasql.log.owner import release
from deltasql.runtime.connection import Connection


def take_back(connection: Connection, row: TableRow, *, purge: bool) -> None:
    """Erase all rows of an import that was not cut over.

    Raises:
        TableStateError: the source was to be deleted with it, or a cut-over is under way.
    """
    if purge:
        raise TableStateError(
            f"Table {row.full_name} is {row.state}: its files belong to a log that others write.",
            hint="Drop it without `purge=True`: the source stays as it is.",
            table=row.full_name,
        )
    Copies(connection.metastore.database).erase(row.table_id)
    leave(connection, row)


def let_go(connection: Connection, row: TableRow) -> int:
    """Let go of a read-only import and return its version; its history stays for the audit.

    Raises:
        TableStateError: a cut-over is under way.
    """
    Copies(connection.metastore.database).detach(row.table_id)
    leave(connection, row)
    return row.current_version


def leave(connection: Connection, row: TableRow) -> None:
    """Remove our marker beside the log, so that anybody may take it over."""
    crash_point("before-marker-removed")
    release(connection.store_of(row), connection.metastore.identity.catalog_id, row.table_id)
