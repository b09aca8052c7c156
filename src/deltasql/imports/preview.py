"""A dry run: what an import would read and how long it would take.

About how long an import takes and how big the database becomes: from sizes, better from counts.
The rates were measured on logs of several shapes (few big commits, thousands of small ones, wide
and missing statistics), each loaded into both databases; `Rates` is all there is to measure anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from deltasql.errors import SourceChangedError
from deltasql.imports.engines.local import Engine, LocalEngine
from deltasql.imports.job import PLANS, ImportOptions, no_columns_error, reader_of
from deltasql.imports.load.loader import GroundError, LoadCounts, Observer, Progress, read_again
from deltasql.imports.load.window import VersionWindow
from deltasql.imports.plan.commit_files import CommitFiles
from deltasql.imports.plan.import_plan import ImportPlan
from deltasql.imports.plan.listing import PlanWarning, corrupt_checkpoint
from deltasql.imports.read.tasks import Rows, cut_tasks
from deltasql.imports.target import Target, find_target, plan_import, resume_options
from deltasql.imports.validate.differences import Check
from deltasql.imports.validate.log_summary import LogSummary, compare_with_commits, hear_checkpoint
from deltasql.metastore.registry import check_name
from deltasql.metastore.table_row import NewTable, TableRow, split_name
from deltasql.protocol.schema.types import parse_schema
from deltasql.runtime.connection import Connection
from deltasql.storage.port import ObjectStore
from deltasql.storage.resolve import canonical_location, location_key
from deltasql.uri import CatalogUri, PostgresUri

# A commit's own line (commitInfo) and a remove without statistics, as JSON.
_COMMIT_INFO = 370
_REMOVE = 250

# A file in a Parquet checkpoint: 140 to 430 bytes, by writer and statistics.
_FILE_IN_CHECKPOINT = 220

# An add as JSON, where only the checkpoint tells of the file; 300 to 1,500 are common.
_ADD = 600

# Where nothing is counted: of a hundred bytes of actions, the adds'; and the live ones among them.
_SHARE_OF_ADDS = 0.8
_SHARE_OF_LIVE = 0.5

# A JVM, a session, and its first Python workers.
_SPARK_START = 6.0


@dataclass(frozen=True, slots=True)
class Rates:
    """What a database needs; bytes and seconds for one of each.

    `load_…` is the database's own share of the time, for when the rest was measured.
    `file_bytes` is what a row and its index entries take beyond the add's JSON, whose names and
    escapes it does not store; `version_bytes` includes the queue's row and a small payload's poor
    compression.
    """

    file_bytes: float
    index_bytes: float
    version_bytes: float
    payload_share: float
    empty_bytes: float
    action_seconds: float
    version_seconds: float
    load_action_seconds: float
    load_version_seconds: float
    start_seconds: float
    indexed_columns: int = 5

    def on_spark(self) -> Rates:
        """Return the rates of an import whose tasks run on a Spark that is started for it."""
        return replace(self, start_seconds=self.start_seconds + _SPARK_START)


SQLITE = Rates(
    file_bytes=190,
    index_bytes=31,
    version_bytes=1_230,
    payload_share=0.15,
    empty_bytes=280_000,
    action_seconds=13e-6,
    version_seconds=90e-6,
    load_action_seconds=6e-6,
    load_version_seconds=15e-6,
    start_seconds=0.3,
)
POSTGRES = Rates(
    file_bytes=115,
    index_bytes=144,
    version_bytes=1_350,
    payload_share=0.15,
    empty_bytes=500_000,
    action_seconds=20e-6,
    version_seconds=100e-6,
    load_action_seconds=13e-6,
    load_version_seconds=20e-6,
    start_seconds=0.5,
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a listing tells: how many commits, their bytes, and the checkpoint's to begin with."""

    commits: int
    json_bytes: int
    base_bytes: int


@dataclass(frozen=True, slots=True)
class Counts:
    """What reading tells: actions of the commits, files of the checkpoint, live files at last."""

    adds: int
    removes: int
    live: int
    base_files: int = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """About how long, and how big."""

    seconds: float
    database_bytes: int


def estimate(
    sizes: Sizes,
    counts: Counts | None = None,
    rates: Rates = SQLITE,
    *,
    read_seconds: float | None = None,
) -> Estimate:
    """Return about what an import costs; within a factor of two where `counts` is given.

    `read_seconds` is how long the log took to read, where that was tried: stores and machines
    differ more in that than in anything else.
    """
    known = counts or _guess(sizes)
    rows = known.adds + known.base_files
    text = _adds_json(sizes, known) + known.base_files * _ADD
    size = (
        rates.empty_bytes
        + text
        + rows * rates.file_bytes
        + known.live * rates.indexed_columns * rates.index_bytes
        + sizes.commits * rates.version_bytes
        + sizes.json_bytes * rates.payload_share
    )
    return Estimate(_seconds(sizes, known, rates, read_seconds), int(size))


def _seconds(sizes: Sizes, known: Counts, rates: Rates, read_seconds: float | None) -> float:
    actions = known.adds + known.removes + known.base_files + known.live
    if read_seconds is None:
        work = actions * rates.action_seconds + sizes.commits * rates.version_seconds
    else:
        work = actions * rates.load_action_seconds + sizes.commits * rates.load_version_seconds
        work += read_seconds
    return rates.start_seconds + work


def _adds_json(sizes: Sizes, counts: Counts) -> int:
    """Return what of the commits' bytes are adds: the rest of what is known to be others."""
    if not counts.adds:
        return 0
    others = sizes.commits * _COMMIT_INFO + counts.removes * _REMOVE
    return max(sizes.json_bytes - others, counts.adds * _REMOVE // 2)


def _guess(sizes: Sizes) -> Counts:
    actions = max(sizes.json_bytes - sizes.commits * _COMMIT_INFO, 0)
    adds = round(actions * _SHARE_OF_ADDS / _ADD)
    removes = round(actions * (1 - _SHARE_OF_ADDS) / _REMOVE)
    files = sizes.base_bytes // _FILE_IN_CHECKPOINT
    return Counts(adds, removes, files + round(adds * _SHARE_OF_LIVE), files)


@dataclass(frozen=True, slots=True)
class Preview:
    """What an import would do: `first` to `head`; `counts` is None if only names were listed."""

    table: str
    source: str
    engine: str
    plan: ImportPlan = field(repr=False)
    first: int
    sizes: Sizes
    counts: LoadCounts | None
    live_files: int | None
    estimate: Estimate
    replaces: str | None
    checks: tuple[Check, ...] = ()
    unreadable: tuple[str, ...] = ()

    @property
    def versions(self) -> int:
        """How many versions would be imported."""
        return max(0, self.plan.head - self.first + 1)

    @property
    def warnings(self) -> tuple[PlanWarning, ...]:
        """What a reader of the log would pass over."""
        return (*self.plan.warnings, *map(corrupt_checkpoint, self.unreadable))

    @property
    def is_equal(self) -> bool:
        """Whether the log does not contradict itself."""
        return all(check.is_equal for check in self.checks)


def rates_of(uri: CatalogUri, engine: Engine) -> Rates:
    """Return what the database of a URI needs, filled by an engine."""
    rates = POSTGRES if isinstance(uri, PostgresUri) else SQLITE
    return rates if isinstance(engine, LocalEngine) else rates.on_spark()


@dataclass(slots=True)
class DryRun:
    """One import that only looks."""

    connection: Connection
    source: str
    name: str
    options: ImportOptions = field(default_factory=ImportOptions)
    engine: Engine = field(default_factory=LocalEngine)
    rates: Rates = SQLITE
    observe: Observer = lambda _: None
    clock: Callable[[], float] = time.monotonic

    def quick(self) -> Preview:
        """Say what a listing tells; no commit is opened.

        Raises:
            TableExistsError, NotResumableError, LogGapError: as the import itself would.
        """
        store, plan, target = self._begin()
        commits = _left(plan, target.row)
        return self._preview(store, plan, target, commits, None)

    def whole(self) -> Preview:
        """Read everything as the import would, check it, and count.

        Raises:
            MalformedActionError, UnsupportedFeatureError: as the import itself would.
        """
        store, plan, target = self._begin()
        for left in reversed(range(PLANS)):
            try:
                seen = self._read(plan, store, target.row)
            except SourceChangedError:
                if not left:
                    raise
                store, plan, target = self._begin()
            except GroundError as error:
                plan = plan.without_base(error.message)
            else:
                return self._preview(store, plan, target, _left(plan, target.row), seen)
        raise AssertionError("unreachable")

    def _begin(self) -> tuple[ObjectStore, ImportPlan, Target]:
        namespace, short = split_name(self.name)
        check_name(namespace, short)
        place = canonical_location(self.source)
        store = self.connection.store_at(place)
        new = NewTable("", namespace, short, place, location_key(place))
        self.options, begun = resume_options(self.connection, new, self.options)
        plan = plan_import(store, begun, self.options)
        return store, plan, find_target(self.connection, new, plan, self.options)

    def _read(self, plan: ImportPlan, store: ObjectStore, row: TableRow | None) -> _Seen:
        seen, started = _Seen(), self.clock()
        self.observe(Progress("Reading commits", plan.first, plan.first, plan.head, seen.counts))
        for rows in self._rows(plan, store, row, seen.witness):
            seen.take(rows)
            version = rows.last if isinstance(rows, VersionWindow) else plan.first
            step = "Reading version" if isinstance(rows, VersionWindow) else "Reading checkpoint"
            self.observe(Progress(step, version, plan.first, plan.head, seen.counts))
        self.observe(Progress("Validating", plan.head, plan.first, plan.head, seen.counts))
        events = seen.witness.events()
        seen.live = events.totals(plan.head).files
        self._require_columns(seen, store)
        since = plan.first if row is None else max(row.current_version, plan.first)
        heard = hear_checkpoint(plan, store, since=since, head=plan.head)
        seen.checks = tuple(compare_with_commits(heard, events))
        seen.unreadable = heard.unreadable
        seen.seconds = self.clock() - started
        return seen

    def _rows(
        self, plan: ImportPlan, store: ObjectStore, row: TableRow | None, witness: LogSummary
    ) -> Iterator[Rows]:
        reader = reader_of(self.connection, self.engine, store, lenient=self.options.lenient)
        if row is None or row.current_version < row.first_version:
            return read_again(self.engine, plan, store, reader)
        witness.begin_with(
            self.connection.metastore.snapshot(row.table_id, version=row.current_version)
        )
        return self.engine.run(reader, cut_tasks(_left(plan, row)))

    def _require_columns(self, seen: _Seen, store: ObjectStore) -> None:
        metadata = seen.witness.rules.metadata
        is_empty = metadata is not None and not parse_schema(metadata.schema_string).fields
        if is_empty and seen.live and not self.options.lenient:
            raise no_columns_error(store.uri)

    def _preview(
        self,
        store: ObjectStore,
        plan: ImportPlan,
        target: Target,
        commits: CommitFiles,
        seen: _Seen | None,
    ) -> Preview:
        is_fresh = target.row is None or target.row.current_version < target.row.first_version
        sizes = Sizes(len(commits), commits.bytes, plan.base_bytes if is_fresh else 0)
        first = plan.first if is_fresh or target.row is None else target.row.current_version + 1
        first = max(first, self.options.from_version or 0)
        return Preview(
            self.name,
            store.uri,
            self.engine.name,
            plan,
            first,
            sizes,
            seen.counts if seen else None,
            seen.live if seen else None,
            self._estimate(sizes, seen),
            target.replaces,
            seen.checks if seen else (),
            seen.unreadable if seen else (),
        )

    def _estimate(self, sizes: Sizes, seen: _Seen | None) -> Estimate:
        if seen is None:
            return estimate(sizes, None, self.rates)
        return estimate(sizes, seen.known(), self.rates, read_seconds=seen.seconds)


@dataclass(slots=True)
class _Seen:
    """What was read so far."""

    counts: LoadCounts = field(default_factory=LoadCounts)
    witness: LogSummary = field(default_factory=LogSummary)
    live: int = 0
    seconds: float = 0.0
    checks: tuple[Check, ...] = ()
    unreadable: tuple[str, ...] = ()

    def take(self, rows: Rows) -> None:
        if isinstance(rows, VersionWindow):
            self.witness.take(rows)
            self.counts = self.counts.plus(rows)
        else:
            self.witness.take_state(rows)
            self.counts = self.counts.plus_state(rows.files)

    def known(self) -> Counts:
        counts = self.counts
        arrived = counts.adds + counts.state_files
        return Counts(counts.adds, counts.removes, min(self.live, arrived), counts.state_files)


def _left(plan: ImportPlan, row: TableRow | None) -> CommitFiles:
    """Return the commits that are not in the catalog yet."""
    if row is None or row.current_version < row.first_version:
        return plan.commits
    return plan.commits.between(row.current_version + 1, plan.head)
