"""Is there a catalog in a file? Looked up without leaving a trace, whatever the file is."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path
from tempfile import TemporaryDirectory

from deltasql.catalog.dialects.sqlite_access import INDEX, LOCKS, WAL, Access, size_of
from deltasql.catalog.dialects.sqlite_connection import query_once
from deltasql.catalog.dialects.sqlite_place import no_right_error
from deltasql.errors import CatalogError, CatalogUnavailableError, SchemaMissingError

NO_TABLES = "the database there has no deltasql tables"
_MAGIC = b"SQLite format 3\x00"
_NO_PLACE_FOR_ONE = "Check the path in the URI; a catalog cannot be made there."


def require_catalog(path: Path, has_tables: str) -> None:
    """Refuse a path without a catalog; `has_tables` is the query that counts its first table.

    A file that has our lock file beside it was opened by us before: its tables are not looked for
    here, because opening it leaves nothing new behind.

    Raises:
        SchemaMissingError: says what is there.
        PermissionDeniedError: this user may not look.
    """
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(path, "there is no such file") from None
    except OSError as error:
        raise _closed(path, error) from error
    if not stat.S_ISREG(found.st_mode):
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "no file"
        raise _missing(path, f"it is {kind}", hint=_NO_PLACE_FOR_ONE)
    if not found.st_size:
        raise _missing(path, "the file is empty")
    if Path(f"{path}{LOCKS}").exists():
        return
    if _first_bytes(path) != _MAGIC:
        raise _missing(path, "the file is not a SQLite database", hint=_NO_PLACE_FOR_ONE)
    if not _count(path, has_tables):
        raise _missing(path, NO_TABLES)


def _count(path: Path, query: str) -> int:
    """Return what the query counts; a database that others use is read with its log."""
    if not size_of(f"{path}{WAL}"):
        return int(query_once(path, Access.FROZEN, query)[0][0])
    if Path(f"{path}{INDEX}").exists():
        return int(query_once(path, Access.READING, query)[0][0])
    # A log that nobody uses: SQLite would make its index beside it.
    with TemporaryDirectory(prefix="deltasql-look-") as folder:
        copy = Path(folder) / "copy.db"
        shutil.copyfile(path, copy)
        shutil.copyfile(f"{path}{WAL}", f"{copy}{WAL}")
        return int(query_once(copy, Access.SHARED, query)[0][0])


def _first_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC))
    except OSError as error:
        raise _closed(path, error) from error


def _missing(path: Path, reason: str, hint: str | None = None) -> SchemaMissingError:
    return SchemaMissingError(f"There is no catalog at {path}: {reason}.", hint=hint)


def _closed(path: Path, error: OSError) -> CatalogError:
    if isinstance(error, PermissionError):
        return no_right_error(path)
    return CatalogUnavailableError(
        f"The catalog database at {path} cannot be opened: {error.strerror}."
    )
