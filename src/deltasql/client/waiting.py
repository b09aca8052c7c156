"""Wait until a log has followed SQL."""

from __future__ import annotations

import time

from deltasql.client.session import Session
from deltasql.errors import MirrorLagError


def wait_mirrored(session: Session, table_id: str, version: int, timeout: float) -> None:
    """Wait until the log holds a version, helping along where nobody else does.

    Raises:
        MirrorLagError: it did not get there in time; the commit is safe in SQL.
    """
    deadline = time.monotonic() + timeout
    while (row := session.connection.metastore.table_by_id(table_id)).mirrored_through < version:
        left = deadline - time.monotonic()
        if left <= 0:
            raise MirrorLagError(
                f"Table {row.full_name}: the log is at {row.mirrored_through}, not yet at "
                f"{version}.",
                table=row.full_name,
                version=version,
            )
        result = session.mirroring.engine.catch_up(table_id, seconds=left)
        if result.error is not None:
            time.sleep(min(0.1, max(left, 0.0)))


def complete_log(session: Session, table_id: str, version: int) -> None:
    """Wait for the log as somebody does who will leave nothing else behind.

    Raises:
        MirrorLagError: the log could not be completed.
    """
    deadline = session.connection.settings.mirror.inline_deadline.total_seconds() * 5
    wait_mirrored(session, table_id, version, max(deadline, 10.0))
