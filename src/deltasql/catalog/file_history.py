"""What the book says of versions and of files through time, as Arrow: for whoever checks it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from deltasql.catalog.ahead import read_ahead
from deltasql.catalog.database import Database

_TEXT, _LONG = pa.string(), pa.int64()
_INTERVALS = pa.schema(
    [
        ("path", _TEXT),
        ("dv_id", _TEXT),
        ("size", _LONG),
        ("added_version", _LONG),
        ("removed_version", _LONG),
        ("stats", _TEXT),
        ("partition_values", _TEXT),
        ("modification_time", _LONG),
    ]
)
_DIGESTS = pa.schema([("version", _LONG), ("digest", _TEXT)])


def stream_intervals(
    database: Database, table_id: str, since: int, head: int
) -> Iterator[pa.RecordBatch]:
    """Yield all files that were live at some time from `since` on, of one state of the database.

    Those that are live at `head` come with what their adds said.
    """
    params = {"table_id": table_id, "since": since, "head": head}
    text = database.queries.text("file_intervals")
    return read_ahead(database.arrow_batches(text, params, _INTERVALS))


def version_digests(database: Database, table_id: str, first: int, last: int) -> pa.Table:
    """Return the digests of versions, in order."""
    params = {"table_id": table_id, "first": first, "last": last}
    found = database.arrow(database.queries.text("digests"), params, _DIGESTS)
    return found.sort_by("version")
