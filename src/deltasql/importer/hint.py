"""What `_last_checkpoint` says against what the log holds; it is never trusted, only judged."""

from __future__ import annotations

from collections.abc import Sequence

from deltasql.importer.plan_warnings import PlanWarning, WarningCode
from deltasql.protocol.files import LAST_CHECKPOINT, LogFile
from deltasql.protocol.last_checkpoint import LastCheckpoint, decode_hint


def judge_hint(
    hint: bytes | None, checkpoints: Sequence[tuple[LogFile, ...]], head: int
) -> PlanWarning | None:
    """Return what is wrong with the hint, or None; `checkpoints` are the usable ones, in order."""
    newest = checkpoints[-1][0].version if checkpoints else None
    if hint is None:
        missing = f"is missing; the newest checkpoint is {newest}"
        return None if newest is None else _warning(WarningCode.HINT_MISSING, missing)
    told = decode_hint(hint)
    if told is None:
        return _warning(WarningCode.HINT_CORRUPT, "cannot be read")
    named = f"names version {told.version}"
    if told.version > head:
        return _warning(WarningCode.HINT_ABOVE_HEAD, f"{named}, but the log ends at {head}")
    if not _is_there(told, checkpoints):
        return _warning(WarningCode.HINT_DANGLING, f"{named}, whose checkpoint is not there")
    if told.version != newest:
        return _warning(WarningCode.HINT_STALE, f"{named}; the newest checkpoint is {newest}")
    return None


def _is_there(told: LastCheckpoint, checkpoints: Sequence[tuple[LogFile, ...]]) -> bool:
    return any(
        parts[0].version == told.version and told.parts in (None, len(parts))
        for parts in checkpoints
    )


def _warning(code: WarningCode, says: str) -> PlanWarning:
    return PlanWarning(code, f"The hint {LAST_CHECKPOINT} {says}.", LAST_CHECKPOINT)
