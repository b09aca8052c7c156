"""What `_delta_log` has besides commits: keys, sizes and digests, in `dl_log_files`.

Checkpoints are ours; whatever else lay there when a log was taken over is inherited.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from deltasql.catalog.database import Database, Work

INHERITED = "inherited"


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """A file of the log as it must be; with an `e_tag` it was so when its object had that tag."""

    key: str
    version: int
    kind: str
    size: int
    digest: str
    num_rows: int | None = None
    num_adds: int | None = None
    e_tag: str | None = None


class LogFiles:
    """Records and answers which side files a table's log has."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record(self, work: Work, table_id: str, file: RecordedFile) -> None:
        """Note a file inside the transaction of whoever wrote it."""
        work.run("record_log_file", table_id=table_id, **asdict(file))

    def forget(self, table_id: str, key: str) -> None:
        """Drop the note of a file that is no longer there."""
        with self._database.write() as work:
            work.run("forget_log_file", table_id=table_id, key=key)

    def newest_checkpoint(self, table_id: str) -> RecordedFile | None:
        """Return the newest checkpoint that is recorded."""
        rows = self._database.rows("newest_checkpoint", table_id=table_id)
        return RecordedFile(*rows[0]) if rows else None

    def all(self, table_id: str) -> list[RecordedFile]:
        """Return every recorded file, by its key."""
        return [RecordedFile(*row) for row in self._database.rows("log_files", table_id=table_id)]
