"""Pure: what the history tells of a transaction's statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from deltasql.catalog.commit_request import CommitNote
from deltasql.protocol.actions import CommitInfo

_TOGETHER = "TRANSACTION"
_UNKNOWN = "WRITE"


def note_of(infos: Sequence[CommitInfo]) -> CommitNote:
    """Return the note of one commit: of one statement Delta's own words, of several each of them.

    Counts are summed up; times and sizes of single statements stay with them.
    """
    notes = [_one(info) for info in infos]
    if len(notes) == 1:
        return notes[0]
    each = [
        {
            "operation": note.operation,
            "parameters": dict(note.parameters),
            "metrics": dict(note.metrics),
        }
        for note in notes
    ]
    parameters = {"operations": msgspec.json.encode(each).decode()}
    told = [note.user_metadata for note in notes if note.user_metadata is not None]
    return CommitNote(
        _TOGETHER, parameters, _summed(notes), user_metadata=told[-1] if told else None
    )


def _one(info: CommitInfo) -> CommitNote:
    return CommitNote(
        str(info.operation or _UNKNOWN),
        _texts(info.operation_parameters),
        _texts(info.operation_metrics),
        user_metadata=info.user_metadata,
    )


def _texts(values: Any) -> Mapping[str, Any]:
    return dict(values) if isinstance(values, dict) else {}


def _summed(notes: Sequence[CommitNote]) -> dict[str, str]:
    totals: dict[str, int] = {}
    for note in notes:
        for key, value in note.metrics.items():
            if key.startswith("num") and str(value).isdecimal():
                totals[key] = totals.get(key, 0) + int(value)
    return {key: str(value) for key, value in totals.items()}
