"""Was a write made before? Its token knows, or the application that numbers its writes."""

from __future__ import annotations

from typing import Any

from deltasql.catalog.repeats import WriteSummary
from deltasql.client.session import Session
from deltasql.client.staging import CommitOptions
from deltasql.events import CommitRepeated

# Libraries whose data frames know their length; others, such as DuckDB's, would run a query.
_FRAMES = frozenset({"pandas", "polars"})


def written_before(
    session: Session, table_id: str, options: CommitOptions, meant: WriteSummary | None = None
) -> int | None:
    """Return the version to report for a write that was made before, or None.

    `meant` is what the caller is about to write, as far as it is known.

    Raises:
        InvalidCommitError: the token was used before for another write.
    """
    version = _find(session, table_id, options, meant)
    if version is not None:
        name = session.connection.metastore.table_by_id(table_id).full_name
        session.connection.emit(CommitRepeated(table_id=table_id, table=name, version=version))
    return version


def _find(
    session: Session, table_id: str, options: CommitOptions, meant: WriteSummary | None
) -> int | None:
    book = session.connection.metastore
    if options.commit_id is not None:
        found = book.version_of_write(table_id, options.commit_id, meant)
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


def count_rows(data: Any) -> int | None:
    """Return how many rows a caller gives, where that is known before they are read."""
    rows = getattr(data, "num_rows", None)
    if isinstance(rows, int):
        return rows
    kind = type(data)
    is_frame = kind.__module__.partition(".")[0] in _FRAMES and hasattr(kind, "__len__")
    return len(data) if is_frame or isinstance(data, list) else None
