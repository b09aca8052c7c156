"""Under the lock: the ids of new rows, for tables that track them."""

from __future__ import annotations

from dataclasses import replace

from deltasql.catalog.commit_request import CommitRequest
from deltasql.catalog.database import Work
from deltasql.catalog.definitions import TableDefinition
from deltasql.protocol.actions import Add, Protocol
from deltasql.protocol.features import writer_features
from deltasql.protocol.row_tracking import (
    DOMAIN,
    FEATURE,
    read_mark,
    refuse_moved_rows,
    with_row_ids,
)


def number_rows(
    work: Work, request: CommitRequest, version: int, definition: TableDefinition
) -> CommitRequest:
    """Return the request with ids for all its rows, if its table tracks them.

    Raises:
        InvalidCommitError, UnsupportedFeatureError: they cannot be numbered.
    """
    after = next((a for a in request.actions if isinstance(a, Protocol)), definition.protocol)
    if FEATURE not in writer_features(after) or not _has_files(request):
        return request
    refuse_moved_rows(request.actions, definition.metadata.configuration)
    found = work.rows("domains_at", table_id=request.table_id, version=version - 1)
    told = [text for domain, text, removed in found if domain == DOMAIN and not removed]
    mark = read_mark(told[0] if told else None)
    return replace(request, actions=with_row_ids(request.actions, version, mark))


def _has_files(request: CommitRequest) -> bool:
    return any(isinstance(action, Add) for action in request.actions)
