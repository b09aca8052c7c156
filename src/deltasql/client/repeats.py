"""Was a write made before? Its token knows, or the application that numbers its writes."""

from __future__ import annotations

from deltasql.client.session import Session
from deltasql.client.staging import CommitOptions


def written_before(session: Session, table_id: str, options: CommitOptions) -> int | None:
    """Return the version to tell of a write that was made before, or None."""
    book = session.book
    if options.commit_id is not None:
        found = book.version_of(table_id, options.commit_id)
        if found is not None:
            return found
    if options.txn is not None:
        app_id, number = options.txn
        written = book.txn_version(table_id, app_id)
        if written is not None and written >= number:
            holder = book.version_of_txn(table_id, app_id, number)
            # what was forgotten cannot be told; the rows are in the newest version as well
            return book.table_by_id(table_id).current_version if holder is None else holder
    return None
