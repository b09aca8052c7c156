"""The driver of an import: segments of whole versions go into the catalog in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any

from deltasql.catalog.bulk_load import Segment, StateFiles
from deltasql.catalog.bulk_rows import VersionWindow
from deltasql.catalog.database import UniqueViolationError
from deltasql.catalog.importing import Importing
from deltasql.catalog.rows import TableRow, TableState
from deltasql.catalog.segment_fold import ascending
from deltasql.errors import BadArgumentError, MalformedActionError, UnsupportedFeatureError
from deltasql.importer.engine import Engine
from deltasql.importer.ground import ground_row, ground_window
from deltasql.importer.plan import ImportPlan
from deltasql.importer.progress import LoadCounts, Observer, Progress
from deltasql.importer.tasks import (
    CommitTask,
    LogReader,
    Rows,
    StatePart,
    StateTask,
    cut_segments,
    cut_tasks,
)
from deltasql.importer.witness import Witness
from deltasql.log.checkpoint_rows import checkpoint_parts
from deltasql.protocol.actions import Metadata, Protocol
from deltasql.storage.port import ObjectStore

# What a whole segment may fail by, and most of its windows do not.
_ONE_BY_ONE = (
    MalformedActionError,
    UnsupportedFeatureError,
    UniqueViolationError,
    BadArgumentError,
)


class GroundError(MalformedActionError):
    """The checkpoint that a history stands on is corrupt; another one may do."""


@dataclass(slots=True)
class Loader:
    """Loads what a plan names into one table; goes on where an earlier run stopped."""

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
        self.importing.settle(row.table_id, _name(plan) or None)
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
                raise GroundError("it names a file or a txn twice.", version=plan.first) from error
            done, is_fresh = plan.first, False
        left = plan.commits.between(done + 1, plan.head)
        if left:
            self.tell("Reading commits", plan, max(done, plan.first))
        is_visible = row.state is not TableState.IMPORTING
        whole = list(cut_segments(list(cut_tasks(left)), is_visible=is_visible))
        begun = self._segments(plan, row, reader, whole, is_fresh=is_fresh)
        if begun is not None:
            # one version after the other: what is wrong shows, and all before it is kept
            single = [[task] for task in chain.from_iterable(whole[begun:])]
            self._segments(plan, row, reader, single, is_fresh=is_fresh and begun == 0)

    def _segments(
        self,
        plan: ImportPlan,
        row: TableRow,
        reader: LogReader,
        segments: Sequence[Sequence[CommitTask]],
        *,
        is_fresh: bool,
    ) -> int | None:
        """Load segments, each from its newest window to its oldest.

        Return the number of the first one that must be loaded window by window: it holds something
        that cannot be understood, or replaces a file from before.
        """
        tasks = (task for segment in segments for task in reversed(segment))
        with closing(self.engine.run(reader, tasks)) as rows:
            for number, segment in enumerate(segments):
                try:
                    self._segment(plan, row, segment, rows, is_fresh=is_fresh and not number)
                except _ONE_BY_ONE:
                    if len(segment) == 1:
                        raise
                    return number
        return None

    def _segment(
        self,
        plan: ImportPlan,
        row: TableRow,
        segment: Sequence[CommitTask],
        rows: Iterator[Rows],
        *,
        is_fresh: bool,
    ) -> None:
        first, last = segment[0].files[0].version, segment[-1].files[-1].version
        loaded: list[VersionWindow] = []

        def windows() -> Iterator[VersionWindow]:
            for window in islice(rows, len(segment)):
                assert isinstance(window, VersionWindow)  # noqa: S101 (of a commit task)
                if is_fresh and window.first == first:
                    _require_beginning(window, plan)
                loaded.append(window.without_rows())
                yield window
                if len(loaded) < len(segment):
                    self.tell("Importing version", plan, first + sum(map(len, loaded)) - 1)

        whole = Segment(first, last, len(segment), windows())
        self.importing.segment(row.table_id, whole, self._notes())
        for window in ascending(loaded):
            self.witness.take(window)
            self.counts = self.counts.plus(window)
        self.tell("Importing version", plan, last)

    def _ground(
        self,
        plan: ImportPlan,
        row: TableRow,
        store: ObjectStore,
        reader: LogReader,
        own: tuple[Any, ...],
    ) -> None:
        """Load the state that the history stands on, part by part, then its version."""
        parts = checkpoint_parts(store, plan.base_parts)
        begun = self.importing.parts_done(row.table_id, _name(plan))
        self.witness.missed_state = begun > 0
        tasks = (
            StateTask(part, number, plan.first)
            for number, part in enumerate(parts)
            if number >= begun
        )
        for rows in self.engine.run(reader, tasks):
            assert isinstance(rows, StatePart)  # noqa: S101 (a state task gives a part)
            part = StateFiles(_name(plan), rows.number, plan.first, rows.adds, rows.removes)
            self.importing.state_part(row.table_id, part, self._notes())
            self.witness.take_state(rows)
            self.counts = self.counts.plus_state(rows.files)
            self.tell("Reading checkpoint", plan, plan.first)
        window = ground_window(plan, store, own, lenient=reader.lenient)
        segment = Segment(window.first, window.last, 1, [window])
        self.importing.segment(row.table_id, segment, self._notes())
        self.witness.take(window)
        self.counts = self.counts.plus(window)

    def forget(self) -> None:
        """Begin anew: what was read of a corrupt checkpoint does not count."""
        self.counts, self.witness = LoadCounts(), Witness(self.witness.oldest)

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


def hear(rows: Iterator[VersionWindow | StatePart], oldest: int = -1) -> Witness:
    """Return what the log says from its first version to the last of these rows."""
    witness = Witness(oldest)
    for each in rows:
        if isinstance(each, StatePart):
            witness.take_state(each)
        else:
            witness.take(each)
    return witness
