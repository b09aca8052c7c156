"""A write by `format("deltasql")` as a value: planned in one process, committed in another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from deltasql.client.plans import Planned
from deltasql.client.presence import require_sizes
from deltasql.client.staging import CommitOptions, StagedTable
from deltasql.client.write_desk import WriteTarget
from deltasql.crash import crash_point
from deltasql.data.constraints import refuse_unwritable, row_checks
from deltasql.data.defaults import missing_defaults
from deltasql.data.writer import WriteSpec
from deltasql.errors import UnsupportedFeatureError
from deltasql.protocol.actions import Add
from deltasql.protocol.schema import StructType
from deltasql.spark.address import open_catalog
from deltasql.spark.sink_options import SinkOptions
from deltasql.spark.sink_tasks import TaskOutput
from deltasql.spark.write_options import WriteOptions
from deltasql.spark.write_target import AlreadyThere, find_target, fit, plan_write
from deltasql.storage.location import parse_location

_HINT = "Write with deltasql.spark.write, where Spark itself makes and checks the values."


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """The table as it was when the write began, and how tasks write to it."""

    target: WriteTarget
    output: TaskOutput


def plan_sink(options: SinkOptions, given: StructType) -> SinkPlan | AlreadyThere:
    """Plan a write of rows with these columns.

    Raises:
        TableNotFoundError, TableExistsError, SchemaError, UnsupportedFeatureError: it cannot be.
    """
    how = options.write
    with open_catalog(options.uri, **_opening(how)) as catalog:
        target = find_target(catalog, options.table, given, how)
        if isinstance(target, AlreadyThere):
            return target
        _refuse_memory(target)
        staged = catalog.writes.stage(target)
        fitted = fit(staged, given, how)
        spec = staged.write_spec(fitted, data_change=how.data_change)
        spec = replace(
            spec,
            compression=how.compression,
            max_records_per_file=how.max_records_per_file,
            zone=how.zone,
        )
        _require_ours(spec, given)
        return SinkPlan(target, TaskOutput(catalog.store_opener(target.row.location), spec))


def commit_sink(
    options: SinkOptions,
    given: StructType,
    target: WriteTarget,
    adds: list[Add],
    commit: CommitOptions,
    *,
    noted: Callable[[Planned], Planned] = lambda planned: planned,
) -> int:
    """Commit the files of all tasks, once, whatever happened to the last attempt.

    Raises:
        CommitConflictError: another commit since the plan contradicts this one.
    """

    def stage(staged: StagedTable) -> None:
        fitted = fit(staged, given, options.write)
        _require_reach(target, adds, staged)
        staged.stage(noted(plan_write(staged.snapshot, adds, options.write)), fitted)
        crash_point("before-sink-commit")

    with open_catalog(options.uri, **_opening(options.write)) as catalog:
        version = catalog.writes.commit(target, stage, commit)
    crash_point("after-sink-commit")
    return version


def _opening(how: WriteOptions) -> dict[str, Any]:
    return {"storage_options": how.storage_options, "may_create": how.location is not None}


def _refuse_memory(target: WriteTarget) -> None:
    """What a task keeps in its memory is gone with it."""
    if parse_location(target.row.location).scheme == "memory":
        raise UnsupportedFeatureError(
            f"Table {target.row.full_name} lies in the memory of one process, which Spark's tasks "
            "do not share.",
            hint="Write with deltasql.spark.write in that process.",
            table=target.row.full_name,
        )


def _require_reach(target: WriteTarget, adds: list[Add], staged: StagedTable) -> None:
    """Make sure that tasks wrote to the disk that the table is on, not to one of the same name."""
    if parse_location(target.row.location).scheme == "file":
        require_sizes(adds, staged.store)


def _require_ours(spec: WriteSpec, given: StructType) -> None:
    """Refuse before any task runs what our own writer would refuse in each of them."""
    try:
        refuse_unwritable(spec.schema, [*given.names, *missing_defaults(spec.schema, given.names)])
        row_checks(spec.schema, spec.configuration, spec.zone)
    except UnsupportedFeatureError as error:
        raise UnsupportedFeatureError(error.message, hint=_HINT, **error.context) from error
