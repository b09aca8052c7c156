"""Rows of tasks on their way to the driver, as bytes in the database: for workers elsewhere.

The table is not logged: a crash of the server may empty it, and whoever takes checks. A marker
says that an import goes on; without it nobody leaves anything, so that nothing comes in behind
the one who cleans up.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from deltasql.catalog.database import Database

CHUNK_BYTES = 8 * 1024 * 1024
_CHUNKS = pa.schema([("payload", pa.binary())])


@dataclass(frozen=True, slots=True)
class ImportStage:
    """What one import has staged in one catalog."""

    database: Database
    import_id: str

    def open(self) -> None:
        """Let tasks leave rows; safe to repeat."""
        with self.database.write(durable=False) as work:
            work.run("open_import_stage", import_id=self.import_id, payload=b"")

    def put(self, task: int, attempt: int, packed: bytes) -> bool:
        """Leave the bytes of an attempt, all or none; tell whether the stage is open."""
        with self.database.write(durable=False) as work:
            # holds off whoever cleans up until these rows are there to be seen
            if not work.rows("share_import_stage", import_id=self.import_id):
                return False
            for chunk, start in enumerate(range(0, len(packed), CHUNK_BYTES)):
                work.run(
                    "insert_import_stage",
                    import_id=self.import_id,
                    task=task,
                    attempt=attempt,
                    chunk=chunk,
                    payload=packed[start : start + CHUNK_BYTES],
                )
        return True

    def take(self, task: int, attempt: int) -> bytes:
        """Return what is there of an attempt."""
        text = self.database.queries.text("import_stage_chunks")
        named = {"import_id": self.import_id, "task": task, "attempt": attempt}
        return b"".join(self.database.arrow(text, named, _CHUNKS)["payload"].to_pylist())

    def drop(self, task: int) -> None:
        """Forget what all attempts of a task have left."""
        with self.database.write(durable=False) as work:
            work.run("delete_import_stage_task", import_id=self.import_id, task=task)

    def close(self) -> None:
        """Forget everything; tasks that still run leave nothing any more."""
        for name in ("close_import_stage", "delete_import_stage"):
            with self.database.write(durable=False) as work:
                work.run(name, import_id=self.import_id)


def sweep_stages(database: Database) -> None:
    """Forget what imports have staged whose drivers hold their lock no more."""
    for (import_id,) in database.rows("staged_imports"):
        with database.write(durable=False) as work:
            if work.rows("try_import_lock", import_id=import_id)[0][0]:
                work.run("delete_import_stage", import_id=import_id)
