"""Take back an import: what SQL has of a log that was never its own goes, the log stays."""

from __future__ import annotations

from deltasql.catalog.copies import Copies
from deltasql.catalog.rows import TableRow
from deltasql.client.session import Session
from deltasql.crash import crash_point
from deltasql.errors import TableStateError
from deltasql.log.owner import release


def take_back(session: Session, row: TableRow, *, purge: bool) -> None:
    """Erase all rows of an import that was not cut over.

    Raises:
        TableStateError: the source was to be deleted with it, or a cut-over is under way.
    """
    if purge:
        raise TableStateError(
            f"Table {row.full_name} is {row.state}: its files belong to a log that others write.",
            hint="Drop it without --purge: the source stays as it is.",
            table=row.full_name,
        )
    Copies(session.book.database).erase(row.table_id)
    leave(session, row)


def let_go(session: Session, row: TableRow) -> int:
    """Let go of a read-only import and return its version; its history stays for the audit.

    Raises:
        TableStateError: a cut-over is under way.
    """
    Copies(session.book.database).detach(row.table_id)
    leave(session, row)
    return row.current_version


def leave(session: Session, row: TableRow) -> None:
    """Remove our marker beside the log, so that anybody may take it over."""
    crash_point("before-marker-removed")
    release(session.store_of(row), session.book.identity.catalog_id, row.table_id)
