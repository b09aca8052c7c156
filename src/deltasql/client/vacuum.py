"""Vacuum of one table, as a connection runs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deltasql.catalog.copies import require_own_log
from deltasql.catalog.rows import TableRow
from deltasql.catalog.vacuum_book import VacuumBook
from deltasql.events import TableVacuumed
from deltasql.mirror.vacuum import Vacuum, Vacuumed, VacuumOptions
from deltasql.runtime.connection import Connection


@dataclass(frozen=True, slots=True)
class VacuumReport:
    """What vacuum deleted, or would delete."""

    objects: tuple[Vacuumed, ...]
    is_dry_run: bool

    @property
    def bytes(self) -> int:
        """The size of the objects, where it is known."""
        return sum(one.size for one in self.objects)

    def __iter__(self) -> Iterator[Vacuumed]:
        return iter(self.objects)


def vacuum_with(
    connection: Connection, row: TableRow, given: Mapping[str, Any], *, dry_run: bool
) -> VacuumReport:
    """Delete what nothing needs, or only tell it; `given` are fields of VacuumOptions."""
    require_own_log(row)
    options = VacuumOptions(**given)
    leases = connection.leases
    vacuum = Vacuum(
        connection.metastore,
        VacuumBook(connection.metastore.database, leases, connection.metastore.identity.epoch),
        connection.store_of,
        connection.ownership.require_sole,
        leases,
        connection.now_ms,
    )
    if dry_run:
        return VacuumReport(tuple(vacuum.plan(row, options)), is_dry_run=True)
    report = VacuumReport(tuple(vacuum.run(row, options)), is_dry_run=False)
    connection.emit(
        TableVacuumed(
            table_id=row.table_id,
            table=row.full_name,
            version=row.current_version,
            objects=len(report.objects),
            bytes=report.bytes,
        )
    )
    return report
