"""Forward migrations of the SQL schema: which are there, which are missing, apply them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from deltasql.crash import crash_point
from deltasql.database.port import Database, DbTransaction
from deltasql.errors import SchemaMissingError, SchemaOutdatedError


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    version: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Applied:
    """A step that a database has."""

    version: int
    name: str
    applied_at: int


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """Where a database stands against this version of deltasql."""

    applied: tuple[Applied, ...]
    missing: tuple[Migration, ...]

    @property
    def version(self) -> int:
        """The schema's version; 0 where there is none."""
        return self.applied[-1].version if self.applied else 0


@cache
def known_migrations(dialect: str) -> tuple[Migration, ...]:
    """Return the steps that this version of deltasql knows, in order."""
    folder = files("deltasql.metastore") / "sql" / "migrations" / dialect
    steps = []
    for entry in folder.iterdir():
        number, _, name = entry.name.removesuffix(".sql").partition("_")
        steps.append(Migration(int(number), name, entry.read_text(encoding="utf-8")))
    return tuple(sorted(steps, key=lambda step: step.version))


def status(database: Database) -> SchemaStatus:
    """Return what the database has and what it lacks; changes nothing."""
    with database.read() as tx:
        return _status(database, tx)


def migrate(database: Database, catalog_id: str, *, now: int) -> tuple[Migration, ...]:
    """Apply the missing steps in one transaction and return them; safe to repeat.

    A new catalog gets its id in that transaction: nobody ever sees a catalog without one.

    Raises:
        SchemaOutdatedError: the schema is newer than this version of deltasql, or of a development
            version.
    """
    _refuse_others(status(database))
    with database.write() as tx:
        if database.dialect.has_row_locks:
            tx.execute("lock_catalog")
        tx.execute("schema_version_table")
        found = _status(database, tx)
        _refuse_others(found)
        for step in found.missing:
            database.script(step.text, tx)
            tx.execute("apply_schema_version", version=step.version, name=step.name, now=now)
            crash_point(f"migration-{step.version}")
        if not tx.fetch_all("catalog_row"):
            tx.execute("insert_catalog", catalog_id=catalog_id, epoch=1, created_at=now)
    return found.missing


def require_catalog(database: Database) -> SchemaStatus:
    """Return what the database has and what it lacks; refuse one without a catalog.

    Raises:
        SchemaMissingError: says what is there.
    """
    found = status(database)
    if not found.applied:
        raise SchemaMissingError(database.why_missing())
    return found


def require_current(database: Database) -> None:
    """Refuse to work with a schema that this version of deltasql does not fit."""
    found = require_catalog(database)
    _refuse_others(found)
    if found.missing:
        names = ", ".join(f"{step.version} {step.name}" for step in found.missing)
        raise SchemaOutdatedError(f"The catalog's schema lacks {names}.")


def _status(database: Database, tx: DbTransaction) -> SchemaStatus:
    applied: tuple[Applied, ...] = ()
    if tx.fetch_all("has_schema_version")[0][0]:
        applied = tuple(Applied(*row) for row in tx.fetch_all("schema_versions"))
    have = {step.version for step in applied}
    steps = known_migrations(database.dialect.name)
    return SchemaStatus(applied, tuple(step for step in steps if step.version not in have))


def _refuse_others(found: SchemaStatus) -> None:
    """Refuse a schema that this version of deltasql can neither use nor bring up to date."""
    known = known_migrations("sqlite")  # all dialects have the same numbers
    if found.applied and found.applied[0].name != known[0].name:
        raise SchemaOutdatedError(
            f"The catalog was made by a development version of deltasql (schema {found.version}), "
            "and this one cannot bring it up to date.",
            hint="Mirror every table with the version that made it, then make a new catalog from "
            "the logs: `catalog.mirror.rebuild`.",
        )
    newest = max(step.version for step in known)
    if found.version > newest:
        raise SchemaOutdatedError(
            f"The catalog's schema is at {found.version}; this deltasql knows up to {newest}.",
            hint="Install a newer deltasql.",
        )
