"""A catalog in PostgreSQL, to be opened by another process."""

from __future__ import annotations

from dataclasses import dataclass

from deltasql.catalog.dialects.postgres import PostgresDatabase
from deltasql.uri import Secret


@dataclass(frozen=True, slots=True)
class PostgresOpener:
    """Opens a catalog; can be pickled, and shows nothing of what it connects with."""

    conninfo: Secret
    schema: str

    @classmethod
    def of(cls, database: PostgresDatabase) -> PostgresOpener:
        """Return the opener of a catalog that is open here."""
        return cls(database.conninfo(), database.schema)

    def __call__(self) -> PostgresDatabase:
        """Open the catalog."""
        return PostgresDatabase(self.conninfo.reveal(), self.schema)
