"""Which class of cause an error has: few words, so that metrics can count by them."""

from __future__ import annotations

from typing import TypedDict

from deltasql.errors import (
    AccessDeniedError,
    CommitUnknownError,
    DeltaSqlError,
    LoginRefusedError,
    PermissionDeniedError,
)
from deltasql.events import FailureReason


class FailureFacts(TypedDict):
    """What an event of a failure has of its error."""

    reason: FailureReason
    error_code: str
    error_message: str


def failure_facts(error: Exception) -> FailureFacts:
    """Return the facts of an error; the text of a foreign one may hold anything: its kind only."""
    if isinstance(error, DeltaSqlError):
        code, message = error.code, error.message
    else:
        code, message = DeltaSqlError.code, f"An unexpected {type(error).__name__}."
    return {"reason": failure_reason(error), "error_code": code, "error_message": message}


def failure_reason(error: Exception) -> FailureReason:
    """Return the class of an error's cause."""
    if not isinstance(error, DeltaSqlError):
        return "unexpected"
    if isinstance(error, CommitUnknownError):
        return "unknown"
    if isinstance(error, AccessDeniedError | PermissionDeniedError | LoginRefusedError):
        return "denied"
    return "unavailable" if error.retryable else "refused"
