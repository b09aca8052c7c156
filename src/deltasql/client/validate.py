"""Compare an imported table with its source, and remember the outcome in the book."""

from __future__ import annotations

import enum

from deltasql.catalog.importing import Importing
from deltasql.catalog.rows import TableRow, TableState
from deltasql.errors import BadArgumentError
from deltasql.importer.engine import Engine
from deltasql.importer.load import GroundError, hear, read_again
from deltasql.importer.plan import ImportPlan, PlanOptions
from deltasql.importer.read_plan import read_plan
from deltasql.importer.tasks import LogReader
from deltasql.importer.validation import Validator
from deltasql.importer.witness import Witness
from deltasql.parity.differences import Validation
from deltasql.runtime.connection import Connection
from deltasql.storage.port import ObjectStore

_IMPORTED = (TableState.IMPORTING, TableState.READ_ONLY)


class Verdict(enum.StrEnum):
    """What `import_metadata.validation` says."""

    EQUAL = "equal"
    DIFFERENT = "different"
    ACCEPTED = "accepted"
    SKIPPED = "skipped"


def verdict_of(row: TableRow) -> Verdict | None:
    """Return what the last comparison of a table said, if there was one."""
    found = row.properties.get("import_metadata", {}).get("validation")
    return None if found is None else Verdict(found)


def compare(
    connection: Connection, row: TableRow, plan: ImportPlan, witness: Witness, *, since: int
) -> Validation:
    """Compare a table from one version on with what a witness has heard."""
    return Validator(connection.metastore, row, connection.store_of(row), plan).run(
        witness, since=since
    )


def remember(connection: Connection, row: TableRow, verdict: Verdict) -> TableRow:
    """Write a verdict into the book."""
    notes = {"validation": str(verdict), "validated_version": row.current_version}
    return Importing.into(connection.metastore.database).note(row.table_id, notes)


def validate_table(
    connection: Connection, name: str, engine: Engine, reader: LogReader, *, accept: bool = False
) -> Validation:
    """Read the source of an imported table again, whole, and compare.

    Raises:
        BadArgumentError: the table is not an import any more; `mirror verify` is for it.
    """
    row = connection.metastore.table(name)
    if row.state not in _IMPORTED:
        raise BadArgumentError(
            f"Table {name} is {row.state}; only an imported table is compared with its source.",
            hint=f"Use `deltasql mirror verify {name}`.",
        )
    plan, witness = reread_source(connection.store_of(row), row, engine, reader)
    outcome = compare(connection, row, plan, witness, since=plan.first)
    judge(connection, row, outcome, accept=accept)
    return outcome


def reread_source(
    store: ObjectStore, row: TableRow, engine: Engine, reader: LogReader
) -> tuple[ImportPlan, Witness]:
    """Read what a table has of its source by now, from the log alone.

    Raises:
        MalformedActionError, LogGapError: the log cannot be read any more.
    """
    is_cut = row.oldest_version > row.first_version
    oldest = row.oldest_version if is_cut else None
    options = PlanOptions(row.current_version, lenient=True, from_version=oldest)
    plan = read_plan(store, options)
    while True:
        try:
            return plan, hear(read_again(engine, plan, store, reader), oldest or -1)
        except GroundError as error:
            plan = plan.without_base(error.message)


def _verdict(outcome: Validation, *, accept: bool) -> Verdict:
    if outcome.is_equal:
        return Verdict.EQUAL
    return Verdict.ACCEPTED if accept else Verdict.DIFFERENT


def judge(connection: Connection, row: TableRow, outcome: Validation, *, accept: bool) -> TableRow:
    """Write the outcome of a comparison into the book."""
    return remember(connection, row, _verdict(outcome, accept=accept))
