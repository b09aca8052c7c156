"""What the driver of SQLite raises, as our errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from deltasql.catalog.database import UniqueViolationError
from deltasql.catalog.dialects.adbc import Error, IntegrityError
from deltasql.errors import CatalogCorruptError, CatalogError, CatalogUnavailableError

# How the driver says that SQLite could not open a file.
_NOT_OPENED = ("unable to open", "failed to open")
_PREAMBLE = re.compile(r"^(?:[A-Z_]+: |\[SQLite\] |[Ff]ailed to (?:\w+ )+?query: )+")


@contextmanager
def mapped(path: object) -> Iterator[None]:
    """Turn the driver's errors into ours; SQLite's messages are not localised."""
    try:
        yield
    except IntegrityError as error:
        raise UniqueViolationError(f"The catalog refused a row: {error}.") from error
    except Error as error:
        raise _ours(str(error), path) from error


def _ours(text: str, path: object) -> CatalogError:
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
    if "disk I/O error" in text or "readonly" in text:
        return CatalogUnavailableError(
            f"The catalog database at {path} cannot be written: {reason}."
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
