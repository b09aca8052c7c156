"""The log does not follow SQL."""

from __future__ import annotations

from deltasql.errors.base import DeltaSqlError


class MirrorError(DeltaSqlError):
    """The mirror of the log refused or failed."""

    code = "DS500"


class MirrorConflictError(MirrorError):
    """`_delta_log` holds other bytes for this version."""

    code = "DS501"
    exit_code = 4
    hint = "Another writer bypassed SQL; compare both sides before you decide which one stays."


class MirrorLagError(MirrorError):
    """The log did not reach the version in time."""

    code = "DS502"
    retryable = True
    exit_code = 6
    hint = "See `deltasql show`; the commit is safe in SQL and will be mirrored."


class CheckpointError(MirrorError):
    """A checkpoint is not what SQL has, or cannot be read."""

    code = "DS504"
    hint = "The commits are safe; `deltasql mirror repair` writes the checkpoint again."


class LeaseLostError(MirrorError):
    """Another worker has taken the work over."""

    code = "DS505"
    retryable = True
    exit_code = 6
    hint = "Nothing is wrong: the other worker goes on; try again later if you must."


class RecommitError(MirrorError):
    """A foreign commit in the log cannot be committed again above SQL's versions."""

    code = "DS506"
    exit_code = 4
    hint = (
        "Nothing was changed. `deltasql mirror repair` with `replace=True` lets SQL win and "
        "keeps the foreign commits aside."
    )


class OwnershipError(MirrorError):
    """The log belongs to another catalog, or is ahead of SQL."""

    code = "DS503"
    exit_code = 4
    hint = "The database may be a restored or cloned copy; nothing was written to the log."
