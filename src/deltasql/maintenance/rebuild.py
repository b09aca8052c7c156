"""Bring a table back into SQL from its log, when the database is lost.

The log is imported like any other, compared with what SQL has then, and the table takes commits at
once. A run that was cut short goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from deltasql.crash import crash_point
from deltasql.errors import (
    CheckpointError,
    ImportDifferenceError,
    OwnershipError,
    StorageUnavailableError,
    TableNotFoundError,
)
from deltasql.imports.engines.local import LocalEngine
from deltasql.imports.job import reader_of
from deltasql.imports.load.loader import GroundError, Loader
from deltasql.imports.load.tables import Importing
from deltasql.imports.plan.import_plan import ImportPlan, PlanOptions, read_plan
from deltasql.imports.validate.differences import Validation
from deltasql.imports.validate.validator import compare, judge, reread_source
from deltasql.log.checkpoint_writer import CheckpointWriter
from deltasql.log.commits import read_segment
from deltasql.log.owner_marker import OWNER_KEY, Owner, encode_owner, read_owner
from deltasql.log.table_rules import read_rules
from deltasql.metastore.registry import check_name
from deltasql.metastore.snapshot.checkpoint_source import CheckpointSource
from deltasql.metastore.table_row import NewTable, TableRow, TableState, split_name
from deltasql.mirror.checkpoints.check import require_equal
from deltasql.mirror.checkpoints.write import recorded
from deltasql.protocol.features import is_fenced
from deltasql.protocol.log_names import LOG_FOLDER, LogFile, LogFileKind
from deltasql.runtime.connection import Connection
from deltasql.storage.port import ObjectStore
from deltasql.storage.resolve import canonical_location, location_key

# A log that others have cut or broken is worth all that can still be read of it.
_WHATEVER_IS_LEFT = PlanOptions(lenient=True)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What came back; `unreachable` commits of the log stand before a gap and did not."""

    table: str
    first: int
    version: int
    unreachable: int
    what: str


def rebuild_table(
    connection: Connection, name: str, location: str, *, accept_differences: bool = False
) -> Rebuilt:
    """Make a table of this catalog from a log that belonged to one that is lost.

    The log becomes this catalog's: whoever still has the old database open is fenced off. The
    table keeps the id it had. Safe to repeat after any failure.

    Raises:
        ImportDifferenceError: what SQL has then is not what the log says; the table takes no
            commits.
        OwnershipError: the log never was a catalog's.
        TableExistsError: the name, the place or the id is taken.
    """
    namespace, short = split_name(name)
    check_name(namespace, short)
    place = canonical_location(location)
    store = connection.store_at(place)
    table_id = _known_id(store) or connection.new_id()
    identity = connection.metastore.identity
    new = NewTable(table_id, namespace, short, place, location_key(place))
    store.put(OWNER_KEY, encode_owner(Owner(identity.catalog_id, identity.epoch, table_id)))
    crash_point("after-take-over")
    plan = _load(connection, store, new, accept_differences=accept_differences)
    connection.ownership.forget(table_id)
    unreachable = sum(len(span) for span in plan.left_out)
    return Rebuilt(name, plan.first, plan.head, unreachable, _words(plan.first))


def _load(
    connection: Connection, store: ObjectStore, new: NewTable, *, accept_differences: bool
) -> ImportPlan:
    """Load all that the log holds; somebody who had not noticed yet may put one more meanwhile."""
    importing = Importing.into(connection.metastore.database)
    engine = LocalEngine()
    loader = Loader(importing, engine, connection.now_ms)
    plan = read_plan(store, _WHATEVER_IS_LEFT)
    begun = row = _begin(connection, new, plan)
    reader = reader_of(connection, engine, store, lenient=True)
    corrupt: list[str] = []
    while row.current_version < plan.head:
        try:
            loader.load(plan, row, store, reader)
        except GroundError as error:
            corrupt.append(error.message)
            loader.forget()
        plan = _plan(store, corrupt)
        row = connection.metastore.table_by_id(new.table_id)
        if row.current_version < row.first_version:
            begun = row = _begin(connection, new, plan)
    witness = loader.witness
    if begun.current_version >= begun.first_version or witness.missed_state:
        plan, witness = reread_source(store, row, engine, reader)
    outcome = compare(connection, row, plan, witness, since=plan.first)
    judge(connection, row, outcome, accept=accept_differences)
    if not (outcome.is_equal or accept_differences):
        raise _difference_error(row, outcome)
    importing.index(new.table_id)
    _record_checkpoints(connection, new.table_id, plan.first)
    importing.finish(new.table_id, TableState.ACTIVE)
    return plan


def _plan(store: ObjectStore, corrupt: Sequence[str]) -> ImportPlan:
    """Plan what is left of the log, without the checkpoints that proved corrupt."""
    plan = read_plan(store, _WHATEVER_IS_LEFT)
    for reason in corrupt:
        plan = plan.without_base(reason) if plan.base is not None else plan
    return plan


def _begin(connection: Connection, new: NewTable, plan: ImportPlan) -> TableRow:
    """Begin, or go on; what was begun on another checkpoint and has no version yet goes."""
    importing = Importing.into(connection.metastore.database)
    with suppress(TableNotFoundError):
        row = connection.metastore.table_by_id(new.table_id)
        is_empty = row.state is TableState.IMPORTING and row.current_version < row.first_version
        if is_empty and row.first_version != plan.first:
            importing.erase(new.table_id)
    return importing.begin(new, plan.first)


def _difference_error(row: TableRow, outcome: Validation) -> ImportDifferenceError:
    return ImportDifferenceError(
        f"{row.full_name} differs from the log it was read from; it takes no commits. "
        f"First: {next(outcome.lines())}.",
        hint=f"`catalog.drop({row.full_name!r})` removes it, so that it can be read again; "
        "`accept_differences=True` takes it as it is.",
        table=row.full_name,
    )


def _known_id(store: ObjectStore) -> str | None:
    """Return the table's id by the owner marker; a fenced log may have lost its marker."""
    try:
        owner = read_owner(store)
    except StorageUnavailableError:
        owner = None
    if owner is not None:
        return owner.table_id
    if not is_fenced(read_rules(store, read_segment(store)).protocol):
        raise OwnershipError(
            f"The log at {store.uri} has no owner marker and no fence: it is nobody's.",
            hint="Only tables that deltasql has managed can be brought back from their logs.",
        )
    return None


def _record_checkpoints(connection: Connection, table_id: str, first: int) -> None:
    """Note the checkpoints of the log that are what SQL has now; `verify` tells of the others."""
    row = connection.metastore.table_by_id(table_id)
    store = connection.store_of(row)
    names = (info.key.removeprefix(LOG_FOLDER) for info in store.list_from(LOG_FOLDER))
    files = [file for name in names if (file := LogFile.parse(name)) is not None]
    for file in files:
        if file.kind is not LogFileKind.CHECKPOINT or not first <= file.version:
            continue
        source = CheckpointSource(connection.metastore.snapshot(table_id, version=file.version))
        with (
            suppress(CheckpointError),
            CheckpointWriter(store).fetch(file.version) as (found, path),
        ):
            require_equal(found, path, source)
            with connection.metastore.database.write() as tx:
                connection.log_files.record(tx, table_id, recorded(found))


def _words(first: int) -> str:
    rest = "" if first == 0 else f"; its history begins at {first}"
    return f"rebuilt from the log; commits that had not reached it are lost{rest}"
