"""The settings that a table's metadata sets, carried over to its row, where workers find them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltasql.catalog.database import Work
from deltasql.catalog.rows import TableRow
from deltasql.protocol.actions import Action, Metadata
from deltasql.protocol.codec import dump_values
from deltasql.protocol.properties import is_setting


def keep_settings(work: Work, actions: Sequence[Action], row: TableRow) -> None:
    """Inside a commit: make the row's settings those of the metadata it brings, if it does."""
    metadata = next((a for a in actions if isinstance(a, Metadata)), None)
    if metadata is None:
        return
    wanted = with_settings(row.properties, metadata)
    if wanted != row.properties:
        work.run("set_properties", table_id=row.table_id, properties=dump_values(wanted))


def with_settings(properties: dict[str, Any], metadata: Metadata) -> dict[str, Any]:
    """Return a row's properties with the settings of this metadata in place of older ones."""
    kept = {key: value for key, value in properties.items() if not is_setting(key)}
    return kept | {key: value for key, value in metadata.configuration.items() if is_setting(key)}
