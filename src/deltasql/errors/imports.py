"""A table does not come under SQL."""

from __future__ import annotations

from deltasql.errors.base import DeltaSqlError


class TableImportError(DeltaSqlError):
    """An import cannot begin, go on or end."""

    code = "DS600"
    hint = "The source was not touched; see the guide on migration."


class SourceChangedError(TableImportError):
    """A file of the source is gone, or is not what it was when it was listed."""

    code = "DS601"
    retryable = True
    exit_code = 5
    hint = "The source's own cleanup or another writer changed it; run the import again."


class ImportDifferenceError(TableImportError):
    """What was imported is not what the source's log says."""

    code = "DS602"
    exit_code = 3
    hint = "The table stays read-only; look at the differences, then accept them or import again."


class NotResumableError(TableImportError):
    """The table in SQL is not an earlier part of this source."""

    code = "DS603"
    exit_code = 4
    hint = "Import under another name, or replace the table with `force=True`."


class CutoverError(TableImportError):
    """The log cannot be taken over now."""

    code = "DS604"
    exit_code = 4
    hint = "Nothing was claimed; other writers may go on. Import again with `resume=True` first."
