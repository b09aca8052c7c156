"""Which table a write goes to, what of its commit is decided by the options, and what is not."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from deltasql.api.catalog import Catalog
from deltasql.api.table import Table
from deltasql.api.write.create import TableSpec
from deltasql.api.write.operations import (
    Planned,
    partition_filter,
    plan_append,
    plan_overwrite,
    plan_partition_overwrite,
)
from deltasql.api.write.table_write import CommitOptions, TableWrite
from deltasql.api.write.two_step import WriteTarget
from deltasql.errors import (
    BadArgumentError,
    SchemaError,
    TableExistsError,
    TableNotFoundError,
)
from deltasql.metastore.commit.request import WriteSummary
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.protocol.actions import Add
from deltasql.protocol.schema.types import StructType
from deltasql.spark.write.write_options import WriteOptions
from deltasql.storage.resolve import canonical_location, location_key

# The modes of an append as Delta spells them in its history.
_NOTED = {"append": "Append", "errorifexists": "ErrorIfExists", "ignore": "Ignore"}


@dataclass(frozen=True, slots=True)
class AlreadyThere:
    """Nothing is to be written: the rows are there, or the mode leaves the table alone."""

    version: int


def find_target(
    catalog: Catalog,
    name: str,
    given: StructType,
    options: WriteOptions,
    versions_read: Callable[[str], Collection[int]] = lambda _: (),
) -> WriteTarget | AlreadyThere:
    """Return what a write of such columns goes to: a table, or one that it makes.

    `versions_read` returns the versions of a table (by its id) that the rows come from. An
    overwrite begins at the oldest of them: what was committed since then and would be lost is a
    conflict.

    Raises:
        TableNotFoundError: there is none, and no location says where to make it.
        TableExistsError: there is one, and the mode forbids to touch it.
    """
    try:
        found = catalog.table(name)
    except TableNotFoundError as error:
        return _new(catalog, name, given, options, error)
    meant = WriteSummary("WRITE", _NOTED.get(options.mode, "Overwrite"))
    before = catalog.writes.before(found.table_id, commit_options(options), meant)
    if before is not None:
        return AlreadyThere(before)
    if options.mode == "ignore":
        return AlreadyThere(found.version)
    if options.mode == "errorifexists":
        raise TableExistsError(
            f"There is a table {name!r} already.",
            hint="Write with mode append or overwrite.",
            table=name,
        )
    _require_same(found, options)
    if options.mode != "overwrite":
        return catalog.writes.existing(found.table_id)
    return catalog.writes.existing(found.table_id, min(versions_read(found.table_id), default=None))


def fit(staged: TableWrite, given: StructType, options: WriteOptions) -> Snapshot:
    """Return the table as rows of these columns will leave it; what cannot be is refused early.

    Raises:
        TableStateError, UnsupportedFeatureError, SchemaError, BadPredicateError: says what.
    """
    fitted = staged.fit(given, options.schema_mode)
    if options.replace_where is not None:
        partition_filter(staged.snapshot, options.replace_where, options.zone)
    return fitted


def plan_write(snapshot: Snapshot, adds: list[Add], how: WriteOptions) -> Planned:
    """Return what the commit does with the new files."""
    if how.mode != "overwrite":
        return plan_append(snapshot, adds, _NOTED[how.mode])
    given: dict[str, Any] = {"data_change": how.data_change, "zone": how.zone}
    if how.is_dynamic:
        return plan_partition_overwrite(snapshot, adds, **given)
    return plan_overwrite(snapshot, adds, how.replace_where, **given)


def commit_options(how: WriteOptions) -> CommitOptions:
    """Return what the commit is told besides its actions."""
    return CommitOptions(commit_id=how.commit_id, user_metadata=how.user_metadata, txn=how.txn)


def _new(
    catalog: Catalog,
    name: str,
    given: StructType,
    options: WriteOptions,
    error: TableNotFoundError,
) -> WriteTarget:
    if options.location is None:
        raise TableNotFoundError(
            error.message, hint="Give a location, and the table is created there.", table=name
        ) from error
    place = canonical_location(options.location)
    return catalog.writes.new(TableSpec(name, place, given, options.partition_by or ()))


def _require_same(table: Table, options: WriteOptions) -> None:
    place = options.location
    if place is not None and location_key(place) != location_key(table.location):
        raise BadArgumentError(f"The table lies at {table.location}, not at {place}.")
    wanted = options.partition_by
    if wanted is None:
        return
    columns = tuple(table.snapshot().metadata.partition_columns)
    if wanted != columns:
        raise SchemaError(
            f"The table is partitioned by {', '.join(columns) or 'nothing'}, not by "
            f"{', '.join(wanted) or 'nothing'}."
        )
