"""Take back an import: what SQL has of a log that was never its own goes, the log stays."""

from __future__ import annotations

from deltasql.catalog.copies import Copies
from deltasql.catalog.rows import TableRow
from deltasql.client.session import Session
from deltasql.errors import ObjectNotFoundError, TableStateError
from deltasql.log.owner import OWNER_KEY, read_owner


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
    _leave(session, row)


def let_go(session: Session, row: TableRow) -> int:
    """Let go of a read-only import and return its version; its history stays for the audit.

    Raises:
        TableStateError: a cut-over is under way.
    """
    Copies(session.book.database).detach(row.table_id)
    _leave(session, row)
    return row.current_version


def _leave(session: Session, row: TableRow) -> None:
    """Remove the marker of a cut-over that died before its claim: it keeps others out."""
    store = session.store_of(row)
    owner = read_owner(store)
    ours = session.book.identity.catalog_id
    if owner is not None and owner.catalog_id == ours and owner.table_id == row.table_id:
        try:
            store.delete(OWNER_KEY)
        except ObjectNotFoundError:
            return
