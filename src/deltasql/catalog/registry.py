"""Register tables in the catalog."""

from __future__ import annotations

from dataclasses import dataclass

from deltasql.catalog.database import Work
from deltasql.catalog.rows import TableState


@dataclass(frozen=True, slots=True)
class NewTable:
    """The row of a table that a commit creates; its version is the first."""

    table_id: str
    namespace: str
    name: str
    location: str
    location_key: str
    properties: str = "{}"


def insert_table(
    work: Work,
    create: NewTable,
    *,
    state: TableState = TableState.ACTIVE,
    first_version: int = 0,
) -> None:
    """Register a table; its log begins where its versions do."""
    work.run(
        "insert_table",
        table_id=create.table_id,
        namespace=create.namespace,
        name=create.name,
        location=create.location,
        location_key=create.location_key,
        created_at=work.now_ms(),
        last_ict=0,
        state=str(state),
        first_version=first_version,
        mirrored_through=first_version - 1,
        log_floor=first_version,
        properties=create.properties,
    )
