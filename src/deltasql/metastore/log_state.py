"""What SQL knows of a log: its recorded files, a noted claim, whether it is the catalog's own.

What `_delta_log` has besides commits: keys, sizes and digests, in `dl_log_files`. Checkpoints are
ours; whatever else lay there when a log was taken over is inherited.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from deltasql.crash import crash_point
from deltasql.database.port import Database, DbTransaction
from deltasql.errors import TableStateError
from deltasql.metastore.dropping import PURGE
from deltasql.metastore.table_row import TableRow, TableState, table_row

INHERITED = "inherited"

COPIES = (TableState.IMPORTING, TableState.READ_ONLY)
_ERASE = (
    "erase_versions",
    "erase_chunks",
    "erase_metadata",
    "erase_protocols",
    "erase_domains",
    "erase_txn_actions",
    "erase_table",
)


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

    def record(self, tx: DbTransaction, table_id: str, file: RecordedFile) -> None:
        """Note a file inside the transaction of whoever wrote it."""
        tx.execute("record_log_file", table_id=table_id, **asdict(file))

    def forget(self, table_id: str, key: str) -> None:
        """Drop the note of a file that is no longer there."""
        with self._database.write() as tx:
            tx.execute("forget_log_file", table_id=table_id, key=key)

    def newest_checkpoint(self, table_id: str) -> RecordedFile | None:
        """Return the newest checkpoint that is recorded."""
        rows = self._database.fetch_all("newest_checkpoint", table_id=table_id)
        return RecordedFile(*rows[0]) if rows else None

    def all(self, table_id: str) -> list[RecordedFile]:
        """Return every recorded file, by its key."""
        return [
            RecordedFile(*row) for row in self._database.fetch_all("log_files", table_id=table_id)
        ]


@dataclass(frozen=True, slots=True)
class Claim:
    """The commit that is to win the next number of a log."""

    version: int
    payload: bytes = field(repr=False)


def noted_claim(read: Database | DbTransaction, table_id: str) -> Claim | None:
    """Return the claim that a cut-over has begun with, if one has."""
    rows = read.fetch_all("import_claim", table_id=table_id)
    return Claim(rows[0][0], rows[0][1].encode()) if rows else None


def erase_rows(tx: DbTransaction, table_id: str) -> None:
    """Delete all rows of a table that is being imported, its own last."""
    for name in (*PURGE, *_ERASE):
        tx.execute(name, table_id=table_id)


@dataclass(slots=True)
class Copies:
    """Lets go of copies in one catalog; a copy that is being cut over stays."""

    database: Database

    def erase(self, table_id: str) -> None:
        """Delete all rows of a copy, its history too.

        Raises:
            TableStateError: it is no copy, or a cut-over is under way.
        """
        with self.database.write() as tx:
            _locked_copy(tx, table_id)
            # only what is being imported can be erased
            tx.execute("set_state", table_id=table_id, state=str(TableState.IMPORTING))
            erase_rows(tx, table_id)
            crash_point("before-copy-erased")

    def detach(self, table_id: str) -> None:
        """Stop following a log; what SQL has of it stays for the audit.

        Raises:
            TableStateError: it is no copy, or a cut-over is under way.
        """
        with self.database.write() as tx:
            _locked_copy(tx, table_id)
            tx.execute("set_state", table_id=table_id, state=str(TableState.DETACHED))
            crash_point("before-copy-detached")


def is_own_log(row: TableRow) -> bool:
    """Tell whether this catalog writes the table's log: it is no copy and was not given back."""
    is_given_back = row.state is TableState.DETACHED and row.mirrored_through >= row.current_version
    return row.state not in COPIES and not is_given_back


def require_own_log(row: TableRow) -> TableRow:
    """Return the row of a table whose log this catalog writes.

    Raises:
        TableStateError: it is a copy of a log that others write, or was given back to them.
    """
    if is_own_log(row):
        return row
    if row.state is TableState.DETACHED:
        raise TableStateError(
            f"Table {row.full_name} was detached: its log belongs to others by now.",
            hint=f"`catalog.import_table({row.location!r}, name={row.full_name!r}, force=True)` "
            "brings it back.",
            table=row.full_name,
        )
    raise TableStateError(
        f"Table {row.full_name} is {row.state}: its log is written by others, this catalog "
        "only reads it.",
        hint=f"`catalog.imports.validate({row.location!r}, name={row.full_name!r})` compares it; "
        f"`catalog.cutover({row.full_name!r})` takes it over.",
        table=row.full_name,
    )


def _locked_copy(tx: DbTransaction, table_id: str) -> TableRow:
    row = table_row(tx.fetch_all("lock_table", table_id=table_id)[0])
    if row.state not in COPIES:
        raise TableStateError(
            f"Table {row.full_name} is {row.state}, no copy of a log.", table=row.full_name
        )
    if noted_claim(tx, table_id) is not None:
        raise TableStateError(
            f"A cut-over of {row.full_name} was begun and not ended.",
            hint=f"Run `deltasql cutover {row.full_name}`: it ends what was begun.",
            table=row.full_name,
        )
    return row
