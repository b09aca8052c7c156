"""One version in the history of a table, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One version in the history of a table."""

    version: int
    committed_at: int
    committer: str | None
    operation: str
    operation_params: dict[str, str]
    operation_metrics: dict[str, str]
    user_metadata: str | None
    read_version: int | None
    is_blind_append: bool
    adds: int
    removes: int
    bytes_added: int
    bytes_removed: int
    commit_id: str
    transaction_id: str | None
    client: str | None
    origin: str
    digest: str


def history_entry(row: tuple[Any, ...]) -> HistoryEntry:
    """Return a row of the query `history` as a value."""
    values = list(row)
    values[4] = msgspec.json.decode(values[4])
    values[5] = msgspec.json.decode(values[5])
    values[8] = bool(values[8])
    return HistoryEntry(*values)
