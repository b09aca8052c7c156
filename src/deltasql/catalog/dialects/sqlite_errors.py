"""What the driver of SQLite raises, as our errors."""

from __future__ import annotations

import re

from deltasql.catalog.database import UniqueViolationError
from deltasql.catalog.dialects.adbc import Error, IntegrityError
from deltasql.catalog.dialects.sqlite_access import Access, changed_meanwhile
from deltasql.errors import CatalogCorruptError, CatalogError, CatalogUnavailableError

# How the driver says that SQLite could not open a file.
_NOT_OPENED = ("unable to open", "failed to open")
_PREAMBLE = re.compile(r"^(?:[A-Z_]+: |\[SQLite\] |[Ff]ailed to (?:\w+ )+?query: )+")


class DriverErrors:
    """Turns the driver's errors into ours, as a context; SQLite's messages are not localised."""

    __slots__ = ("_access", "_path")

    def __init__(self, path: object, access: Access = Access.SHARED) -> None:
        self._path = path
        self._access = access

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        # a bulk insert names the constraint in a general error
        if isinstance(error, IntegrityError) or (
            isinstance(error, Error) and "UNIQUE constraint failed" in str(error)
        ):
            raise UniqueViolationError(f"The catalog refused a row: {error}.") from error
        if isinstance(error, Error):
            raise _ours(str(error), self._path, self._access) from error


def _ours(text: str, path: object, access: Access) -> CatalogError:
    reason = _PREAMBLE.sub("", text.partition("\nquery:")[0]).rstrip(".")
    if "locked" in text or "busy" in text:
        return CatalogUnavailableError(
            "The catalog database is locked by another program.",
            hint="Another process holds the database; try again when it is done.",
        )
    if "disk is full" in text:
        return CatalogUnavailableError(
            f"The disk of the catalog database at {path} is full.",
            hint="Make room on the disk, then try again.",
        )
    if "readonly" in text and access is Access.READING:
        # a writer has opened the catalog and not yet made the log's index, which we may not make
        return changed_meanwhile(path)
    if "disk I/O error" in text or "readonly" in text:
        done = "written" if access is Access.SHARED else "read"
        return CatalogUnavailableError(
            f"The catalog database at {path} cannot be {done}: {reason}."
        )
    known = _unusable_file(text, reason, path)
    return known or CatalogError(f"The catalog database refused a statement: {reason}.")


def _unusable_file(text: str, reason: str, path: object) -> CatalogError | None:
    if "not a database" in text:
        return CatalogCorruptError(
            f"The file {path} is not a SQLite database.",
            hint="Check the path in the URI. If the file was a catalog, restore it from a backup.",
        )
    if "malformed" in text:
        return CatalogCorruptError(f"The catalog database at {path} is damaged: {reason}.")
    if any(sign in text for sign in _NOT_OPENED):
        return CatalogUnavailableError(
            f"The catalog database at {path} cannot be opened.",
            hint="Check that the file and its folder exist and that this user may write there.",
        )
    return None
