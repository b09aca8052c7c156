"""What an import would do, and about what it would cost; nothing is changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from deltasql.catalog.bulk_rows import VersionWindow
from deltasql.catalog.catalog import check_name
from deltasql.catalog.registry import NewTable
from deltasql.catalog.rows import TableRow, split_name
from deltasql.client.import_target import Target, find_target, plan_import, resume_options
from deltasql.client.imports import PLANS, ImportOptions, no_columns
from deltasql.client.source_reader import reader_of
from deltasql.errors import SourceChangedError
from deltasql.importer.commit_files import CommitFiles
from deltasql.importer.engine import Engine, LocalEngine
from deltasql.importer.estimate import POSTGRES, SQLITE, Counts, Estimate, Rates, Sizes, estimate
from deltasql.importer.load import GroundError, read_again
from deltasql.importer.plan import ImportPlan
from deltasql.importer.plan_warnings import PlanWarning, corrupt_checkpoint
from deltasql.importer.progress import LoadCounts, Observer, Progress
from deltasql.importer.second_witness import compare_with_commits, hear_checkpoint
from deltasql.importer.tasks import Rows, cut_tasks
from deltasql.importer.witness import Witness
from deltasql.parity.differences import Check
from deltasql.protocol.schema import parse_schema
from deltasql.runtime.connection import Connection
from deltasql.storage.port import ObjectStore
from deltasql.storage.resolve import canonical_location, location_key
from deltasql.uri import CatalogUri, PostgresUri


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
        self, plan: ImportPlan, store: ObjectStore, row: TableRow | None, witness: Witness
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
            raise no_columns(store.uri)

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
    witness: Witness = field(default_factory=Witness)
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
    """Return the commits that are not in the book yet."""
    if row is None or row.current_version < row.first_version:
        return plan.commits
    return plan.commits.between(row.current_version + 1, plan.head)
