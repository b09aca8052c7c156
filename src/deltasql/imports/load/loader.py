"""Loads the parsed windows of a log into SQL, or appends new ones, and reports progress.

Adopt commits: what a log holds above SQL's newest version becomes SQL's, byte for byte. The
versions come by the same rows as an import's. A window of many versions that cannot be taken as a
whole is taken version by version, so that all before the fault are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any, TypeAlias

from deltasql.database.port import UniqueViolationError
from deltasql.errors import (
    BadArgumentError,
    MalformedActionError,
    UnsupportedFeatureError,
    VacuumedError,
)
from deltasql.imports.engines.local import Engine
from deltasql.imports.load.bulk_load import Segment, StateFiles
from deltasql.imports.load.tables import Importing
from deltasql.imports.load.window import VersionWindow, ascending
from deltasql.imports.plan.commit_files import CommitFile, CommitFiles
from deltasql.imports.plan.import_plan import ImportPlan
from deltasql.imports.plan.listing import newer_commits
from deltasql.imports.read.base_checkpoint import ground_row, ground_window
from deltasql.imports.read.parse import read_window
from deltasql.imports.read.tasks import (
    CommitTask,
    LogReader,
    Rows,
    StatePart,
    StateTask,
    cut_segments,
    cut_tasks,
)
from deltasql.imports.validate.log_summary import LogSummary
from deltasql.log.checkpoint_reader import checkpoint_parts
from deltasql.metastore.table_row import TableRow, TableState
from deltasql.protocol.actions import Metadata, Protocol
from deltasql.protocol.log_names import commit_key
from deltasql.storage.port import ObjectStore

# What a whole segment may fail by, and most of its windows do not.
_ONE_BY_ONE = (
    MalformedActionError,
    UnsupportedFeatureError,
    UniqueViolationError,
    BadArgumentError,
)

# What a window of many versions may be refused for, and most of its versions are not.
_REFUSED_ONE_BY_ONE = (
    MalformedActionError,
    UnsupportedFeatureError,
    VacuumedError,
    BadArgumentError,
)


@dataclass(frozen=True, slots=True)
class LoadCounts:
    """What was written to the catalog."""

    versions: int = 0
    actions: int = 0
    adds: int = 0
    removes: int = 0
    metadata: int = 0
    protocols: int = 0
    txns: int = 0
    domains: int = 0
    state_files: int = 0
    bytes: int = 0

    def plus(self, window: VersionWindow) -> LoadCounts:
        """Return the counts with those of one more window."""
        rows = window.versions
        kinds = [change.kind for _, change in window.changes]
        return LoadCounts(
            self.versions + rows.num_rows,
            self.actions + _sum(rows, "actions"),
            self.adds + _sum(rows, "adds"),
            self.removes + _sum(rows, "removes"),
            self.metadata + kinds.count("metaData"),
            self.protocols + kinds.count("protocol"),
            self.txns + window.txns.num_rows,
            self.domains + window.domains.num_rows,
            self.state_files,
            self.bytes + _sum(rows, "payload_bytes"),
        )

    def plus_state(self, files: int) -> LoadCounts:
        """Return the counts with so many more files of a checkpoint."""
        return replace(self, state_files=self.state_files + files)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an import is: `version` of `head`, and what it is doing."""

    step: str
    version: int
    first: int
    head: int
    counts: LoadCounts


Observer: TypeAlias = Callable[[Progress], None]


def _sum(rows: object, name: str) -> int:
    import pyarrow.compute as pc  # noqa: PLC0415 (only an import that runs counts)

    return pc.sum(rows[name]).as_py() or 0  # type: ignore[index]


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
    witness: LogSummary = field(default_factory=LogSummary)

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
        self.counts, self.witness = LoadCounts(), LogSummary(self.witness.oldest)

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


def hear(rows: Iterator[VersionWindow | StatePart], oldest: int = -1) -> LogSummary:
    """Return what the log says from its first version to the last of these rows."""
    witness = LogSummary(oldest)
    for each in rows:
        if isinstance(each, StatePart):
            witness.take_state(each)
        else:
            witness.take(each)
    return witness


@dataclass(frozen=True, slots=True)
class LogAdopter:
    """Adopts commits into tables of one catalog that take commits; see `BulkLoad.adopt`."""

    importing: Importing
    now_ms: Callable[[], int]

    def adopt(self, row: TableRow, store: ObjectStore, version: int) -> None:
        """Adopt one version, the next one of the table."""
        info = store.head(commit_key(version))
        file = CommitFile(version, info.size, info.modified_ms)
        self._append(row, read_window(store, [file], lenient=True))

    def adopt_newer(self, row: TableRow, store: ObjectStore) -> int:
        """Adopt what follows the table's newest version without a gap; return how many versions."""
        files = CommitFiles.of(newer_commits(store, row.current_version))
        for task in cut_tasks(files):
            if not self._append_whole(row, store, task.files):
                for file in task.files:
                    self._append(row, read_window(store, [file], lenient=True))
        return len(files)

    def _append_whole(self, row: TableRow, store: ObjectStore, files: CommitFiles) -> bool:
        """Adopt versions in one transaction; False if that must be done one by one."""
        try:
            window = read_window(store, files, lenient=True)
            if len(files) > 1 and any(isinstance(one, Metadata) for _, one in window.changes):
                return False
            self._append(row, window)
        except _REFUSED_ONE_BY_ONE:
            if len(files) == 1:
                raise
            return False
        return True

    def _append(self, row: TableRow, window: VersionWindow) -> None:
        self.importing.adopt(row.table_id, window, now=self.now_ms())
