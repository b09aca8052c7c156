"""A cut-over in the book: the claim is noted before it is put, and becomes a version if it won.

Between the two the log alone decides. Whoever comes after a crash finds the noted claim, looks at
the log, and ends what was begun.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deltasql.catalog.bulk_load import BulkLoad
from deltasql.catalog.bulk_rows import VersionWindow
from deltasql.catalog.copies import Claim, noted_claim
from deltasql.catalog.database import BulkWork, Database, Work
from deltasql.catalog.ids import IdBlocks
from deltasql.catalog.rows import TableRow, TableState, table_row
from deltasql.crash import crash_point
from deltasql.errors import CutoverError
from deltasql.protocol.codec import dump_values


@dataclass(slots=True)
class CutoverBook:
    """Notes, forgets and fulfils claims in one catalog."""

    database: Database

    def note(self, table_id: str, claim: Claim) -> None:
        """Write down a claim before anybody else can see it.

        Raises:
            CutoverError: the table is not a read-only import from before the claim, or another
                claim is noted.
        """
        with self.database.write() as work:
            row = _lock(work, table_id)
            if row.state is not TableState.READ_ONLY or row.current_version >= claim.version:
                raise _not_ready(row, claim.version - 1)
            if noted_claim(work, table_id) not in (None, claim):
                raise CutoverError(
                    f"Another cut-over of {row.full_name} is under way.", table=row.full_name
                )
            text = claim.payload.decode()
            work.run("set_import_claim", table_id=table_id, version=claim.version, claim=text)
            crash_point("before-claim-noted")
        crash_point("after-claim-noted")

    def forget(self, table_id: str) -> TableRow:
        """Drop a claim that has lost, and return the table as it is then."""
        with self.database.write() as work:
            work.run("end_import", table_id=table_id)
            crash_point("before-claim-forgotten")
            return _lock(work, table_id)

    def fulfil(self, table_id: str, won: VersionWindow, *, now: int) -> TableRow:
        """Make a claim that has won the table's newest version and let it take commits."""
        load = BulkLoad(self.database, table_id, IdBlocks(self.database, "file_id"))
        with self.database.bulk() as work:
            _require_ready(work, table_id, won.first - 1)
            load.claim(work, won, now=now)
            work.run("set_state", table_id=table_id, state=str(TableState.ACTIVE))
            work.run("end_import", table_id=table_id)
            _set(work, _lock(work, table_id), {"cut_over_at": won.first})
            crash_point("before-cutover-commit")
            row = _lock(work, table_id)
        crash_point("after-cutover-commit")
        return row


def _require_ready(work: BulkWork, table_id: str, version: int) -> None:
    row = _lock(work, table_id)
    if row.state is not TableState.READ_ONLY or row.current_version != version:
        raise _not_ready(row, version)


def _not_ready(row: TableRow, version: int) -> CutoverError:
    return CutoverError(
        f"Table {row.full_name} is {row.state} at version {row.current_version}; it must be "
        f"read_only at {version} to be taken over.",
        table=row.full_name,
    )


def _lock(work: Work | BulkWork, table_id: str) -> TableRow:
    return table_row(work.rows("lock_table", table_id=table_id)[0])


def _set(work: BulkWork, row: TableRow, notes: dict[str, Any]) -> None:
    kept = row.properties.get("import_metadata", {}) | notes
    properties = dump_values(row.properties | {"import_metadata": kept})
    work.run("set_properties", table_id=row.table_id, properties=properties)
