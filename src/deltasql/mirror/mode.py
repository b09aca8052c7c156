"""How a table is mirrored: right after its commits, by a worker, or not at all."""

from __future__ import annotations

from deltasql.catalog.rows import TableRow
from deltasql.runtime.connection import Connection


def mirror_mode(connection: Connection, row: TableRow) -> str:
    """Return `inline`, `worker` or `off`."""
    return "off" if row.mirror_paused else connection.settings_of(row).mirror.mode
