"""A log or data breaks the rules."""

from __future__ import annotations

from deltasql.errors.base import DeltaSqlError


class ProtocolError(DeltaSqlError):
    """Something breaks the Delta protocol."""

    code = "DS200"
    exit_code = 5


class MalformedActionError(ProtocolError):
    """A commit or a checkpoint holds something that is not valid in Delta."""

    code = "DS201"
    hint = "The log is damaged or not of a Delta writer; bring the file back from a backup."


class InvalidCommitError(ProtocolError):
    """The actions of a commit contradict each other or the table."""

    code = "DS202"
    exit_code = 1
    hint = "Nothing was committed; correct the actions and commit again."


class UnsupportedFeatureError(ProtocolError):
    """The table uses a feature that this operation does not support."""

    code = "DS203"
    exit_code = 1
    hint = "Use an engine that supports the feature, or drop the feature from the table."


class LogGapError(ProtocolError):
    """A version is missing from the log."""

    code = "DS204"


class SchemaError(ProtocolError):
    """Data or schema does not fit the table."""

    code = "DS205"
    exit_code = 1
    hint = "Cast or add the columns, or change the table with alter."


class ConstraintViolationError(ProtocolError):
    """A row breaks a constraint of the table."""

    code = "DS206"
    exit_code = 1
    hint = "Nothing was committed; correct the rows and write again."


class BadPredicateError(ProtocolError, ValueError):
    """The filter cannot be understood."""

    code = "DS207"
    exit_code = 2
    hint = "Filters are comparisons joined by AND, OR, NOT, like day = '2026-01-01' AND id > 5."


class UnsafePathError(ProtocolError):
    """A path in the log leads outside the table."""

    code = "DS208"
    hint = "If the table is a shallow clone that you trust, allow the other location explicitly."


class CorruptDataError(ProtocolError):
    """A data file or deletion vector is damaged or missing."""

    code = "DS209"
    hint = "Restore the object from a backup, or restore the table to a version without it."
