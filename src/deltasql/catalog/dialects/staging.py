"""Temporary tables that very many rows pass through; the words in which dialects differ there."""

from __future__ import annotations

from deltasql.errors import CatalogError

SQLITE_WORDS = {"uuid": "text", "bytewise": "", "on_commit_drop": ""}
POSTGRES_WORDS = {"uuid": "uuid", "bytewise": 'collate "C"', "on_commit_drop": "on commit drop"}


def require_all(name: str, taken: int, given: int) -> None:
    """Make sure that a bulk load lost nothing on its way.

    Raises:
        CatalogError: it did.
    """
    if taken != given:
        raise CatalogError(f"{name}: the database took {taken} of {given} rows.")
