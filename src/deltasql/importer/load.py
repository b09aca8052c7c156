"""The driver of an import: windows of whole versions go into the book in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from deltasql.catalog.bulk_rows import VersionWindow
from deltasql.catalog.database import UniqueViolationError
from deltasql.catalog.importing import Importing
from deltasql.catalog.rows import TableRow
from deltasql.errors import MalformedActionError
from deltasql.importer.engine import Engine
from deltasql.importer.ground import ground_row, ground_window
from deltasql.importer.plan import ImportPlan
from deltasql.importer.progress import LoadCounts, Observer, Progress
from deltasql.importer.tasks import LogReader, StatePart, StateTask, cut_tasks
from deltasql.importer.witness import Witness
from deltasql.log.checkpoint_rows import checkpoint_parts
from deltasql.protocol.actions import Metadata, Protocol
from deltasql.storage.port import ObjectStore

# In import_metadata: how many parts of a checkpoint's state are in, while it is loaded.
PARTS_DONE = "state_parts"
PARTS_OF = "state_checkpoint"


class GroundError(MalformedActionError):
    """The checkpoint that a history stands on is corrupt; another one may do."""


@dataclass(slots=True)
class Loader:
    """Loads what a plan names into one table of the book; goes on where an earlier run stopped."""

    importing: Importing
    engine: Engine
    now_ms: Callable[[], int]
    observe: Observer = lambda _: None
    counts: LoadCounts = field(default_factory=LoadCounts)
    witness: Witness = field(default_factory=Witness)

    def load(self, plan: ImportPlan, row: TableRow, store: ObjectStore, reader: LogReader) -> None:
        """Bring a table from where it is to the plan's head.

        Raises:
            SourceChangedError: a file of the plan is gone; make a new plan and go on.
            MalformedActionError, UnsupportedFeatureError: the log cannot be understood; what came
                before is in.
        """
        done = row.current_version
        is_fresh = done < row.first_version
        if is_fresh and plan.base is not None:
            self.tell("Reading checkpoint", plan, plan.first)
            own = ground_row(plan, store, lenient=reader.lenient)
            try:
                self._ground(plan, row, store, reader, own)
            except MalformedActionError as error:
                raise GroundError(error.message, version=plan.first) from error
            except UniqueViolationError as error:
                raise GroundError(
                    "it tells of a file or a txn twice.", version=plan.first
                ) from error
            done, is_fresh = plan.first, False
        left = plan.commits.between(done + 1, plan.head)
        if left:
            self.tell("Reading commits", plan, max(done, plan.first))
        for rows in self.engine.run(reader, cut_tasks(left)):
            assert isinstance(rows, VersionWindow)  # noqa: S101 (a commit task gives a window)
            if is_fresh:
                _require_beginning(rows, plan)
                is_fresh = False
            self.importing.window(row.table_id, rows, self._notes())
            done = rows.last
            self.witness.take(rows)
            self.counts = self.counts.plus(rows)
            self.tell("Importing version", plan, done)

    def _ground(
        self,
        plan: ImportPlan,
        row: TableRow,
        store: ObjectStore,
        reader: LogReader,
        own: tuple[Any, ...],
    ) -> None:
        """Load the state that the history stands on, part by part, then its version."""
        noted = row.properties.get("import_metadata", {})
        parts = checkpoint_parts(store, plan.base_parts)
        begun = int(noted.get(PARTS_DONE, 0)) if noted.get(PARTS_OF) == _name(plan) else 0
        self.witness.missed_state = begun > 0
        tasks = (
            StateTask(part, number, plan.first)
            for number, part in enumerate(parts)
            if number >= begun
        )
        for rows in self.engine.run(reader, tasks):
            assert isinstance(rows, StatePart)  # noqa: S101 (a state task gives a part)
            notes = {PARTS_DONE: rows.number + 1, PARTS_OF: _name(plan)}
            self.importing.state_part(
                row.table_id, rows.files, self._notes() | notes, version=plan.first
            )
            self.witness.take_state(rows)
            self.counts = self.counts.plus_state(rows.files.num_rows)
            self.tell("Reading checkpoint", plan, plan.first)
        window = ground_window(plan, store, own, lenient=reader.lenient)
        self.importing.window(row.table_id, window, self._notes())
        self.witness.take(window)
        self.counts = self.counts.plus(window)

    def forget(self) -> None:
        """Begin anew: what was read of a corrupt checkpoint does not count."""
        self.counts, self.witness = LoadCounts(), Witness()

    def _notes(self) -> dict[str, Any]:
        now = self.now_ms()
        at = datetime.fromtimestamp(now / 1000, UTC).isoformat(timespec="seconds")
        return {"import_timestamp": at.replace("+00:00", "Z"), "imported_at_ms": now}

    def tell(self, step: str, plan: ImportPlan, version: int) -> None:
        """Let the observer know how far we are."""
        self.observe(Progress(step, version, plan.first, plan.head, self.counts))


def _name(plan: ImportPlan) -> str:
    return plan.base.key if plan.base else ""


def _require_beginning(window: VersionWindow, plan: ImportPlan) -> None:
    first = [change for version, change in window.changes if version == plan.first]
    for kind in (Protocol, Metadata):
        if not any(isinstance(change, kind) for change in first):
            raise MalformedActionError(
                f"Version {plan.first} of {plan.uri} is its first and has no {kind.kind}.",
                hint="The first version brings both; restore it from a backup.",
                version=plan.first,
            )


def read_again(
    engine: Engine, plan: ImportPlan, store: ObjectStore, reader: LogReader
) -> Iterator[VersionWindow | StatePart]:
    """Yield what an import of the plan would load, for whoever only looks.

    Raises:
        GroundError: the checkpoint that the history stands on is corrupt.
    """
    commits, is_fresh = plan.commits, plan.base is None
    if plan.base is not None:
        own = ground_row(plan, store, lenient=reader.lenient)
        try:
            parts = checkpoint_parts(store, plan.base_parts)
            tasks = (StateTask(part, n, plan.first) for n, part in enumerate(parts))
            yield from engine.run(reader, tasks)
            yield ground_window(plan, store, own, lenient=reader.lenient)
        except MalformedActionError as error:
            raise GroundError(error.message, version=plan.first) from error
        commits = commits.between(plan.first + 1, plan.head)
    for rows in engine.run(reader, cut_tasks(commits)):
        if is_fresh and isinstance(rows, VersionWindow):
            _require_beginning(rows, plan)
            is_fresh = False
        yield rows


def hear(rows: Iterator[VersionWindow | StatePart]) -> Witness:
    """Return what the log says from its first version to the last of these rows."""
    witness = Witness()
    for each in rows:
        if isinstance(each, StatePart):
            witness.take_state(each)
        else:
            witness.take(each)
    return witness
