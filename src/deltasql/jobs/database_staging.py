"""Tasks leave their rows in the catalog's own PostgreSQL: for workers on other machines."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

from deltasql.catalog.database import Database
from deltasql.catalog.dialects.postgres import PostgresDatabase
from deltasql.catalog.dialects.postgres_opener import PostgresOpener
from deltasql.catalog.import_stage import ImportStage, sweep_stages
from deltasql.errors import BadArgumentError, CatalogUnavailableError
from deltasql.jobs.staging import Staged, StageGoneError, digest_of, require_whole


@dataclass(frozen=True, slots=True)
class DatabaseTaskStage:
    """The database, as a task sees it; reached anew each time: idle workers hold nothing."""

    opener: PostgresOpener
    import_id: str

    def put(self, task: int, attempt: int, packed: bytes) -> Staged:
        """Insert the bytes in chunks, in one transaction."""
        with closing(self.opener()) as database:
            if not ImportStage(database, self.import_id).put(task, attempt, packed):
                raise StageGoneError(f"The stage for task {task} is not open.", task=task)
        return Staged(task, attempt, len(packed), digest_of(packed))


@dataclass(frozen=True, slots=True)
class DatabaseStage:
    """The database, as the driver sees it."""

    book: ImportStage
    opener: PostgresOpener

    @property
    def for_tasks(self) -> DatabaseTaskStage:
        """What the tasks get."""
        return DatabaseTaskStage(self.opener, self.book.import_id)

    def take(self, staged: Staged) -> bytes:
        """Read the chunks of an attempt and delete all that its task has left."""
        packed = self.book.take(staged.task, staged.attempt)
        require_whole(packed, staged)
        self.book.drop(staged.task)
        return packed

    def reopen(self) -> None:
        """Put the marker back that a crash of the server has taken."""
        self.book.open()


@dataclass(frozen=True, slots=True)
class DatabaseStaging:
    """Stages in one catalog."""

    database: PostgresDatabase

    @classmethod
    def of(cls, database: Database) -> DatabaseStaging:
        """Return the staging of a catalog.

        Raises:
            BadArgumentError: its database cannot be reached from elsewhere.
        """
        if not isinstance(database, PostgresDatabase):
            raise BadArgumentError(
                f"Workers on other machines cannot reach a catalog in {database.dialect.name}.",
                hint="SQLite needs a local master such as local[*]; a cluster needs PostgreSQL.",
            )
        return cls(database)

    @contextmanager
    def open(self) -> Iterator[DatabaseStage]:
        """Open a stage; what killed runs have left is forgotten first."""
        sweep_stages(self.database)
        book = ImportStage(self.database, str(uuid.uuid4()))
        with self.database.hold("hold_import_lock", import_id=book.import_id):
            book.open()
            try:
                yield DatabaseStage(book, PostgresOpener.of(self.database))
            finally:
                with suppress(CatalogUnavailableError):  # the next run sweeps
                    book.close()
