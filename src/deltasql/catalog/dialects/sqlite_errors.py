"""What the driver of SQLite raises, as our errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from deltasql.catalog.database import UniqueViolationError
from deltasql.catalog.dialects.adbc import Error, IntegrityError
from deltasql.errors import CatalogError, CatalogUnavailableError


@contextmanager
def mapped() -> Iterator[None]:
    """Turn the driver's errors into ours; SQLite's messages are not localised."""
    try:
        yield
    except IntegrityError as error:
        raise UniqueViolationError(f"The catalog refused a row: {error}.") from error
    except Error as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            raise CatalogUnavailableError(
                "The catalog database is locked by another program.",
                hint="Another process holds the database; try again when it is done.",
            ) from error
        if "disk I/O error" in text or "disk is full" in text or "readonly" in text:
            raise CatalogUnavailableError(
                f"The catalog database cannot be written: {text}."
            ) from error
        if "not a database" in text or "malformed" in text:
            raise CatalogError(f"The file is not a usable SQLite database: {text}.") from error
        if "unable to open" in text:
            raise CatalogUnavailableError(f"The catalog cannot be opened: {text}.") from error
        raise CatalogError(f"The catalog database refused a statement: {text}.") from error
