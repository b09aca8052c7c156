"""The import of one table, from the plan to the validated result; it resumes where it was
stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from threading import Event
from typing import Any

from deltasql.errors import (
    BadArgumentError,
    ImportDifferenceError,
    MalformedActionError,
    SourceChangedError,
)
from deltasql.imports.engines.local import Engine, LocalEngine
from deltasql.imports.load.loader import GroundError, LoadCounts, Loader, Observer
from deltasql.imports.load.tables import Importing, Swap
from deltasql.imports.plan.import_plan import ImportPlan, PlanOptions
from deltasql.imports.plan.listing import PlanWarning, corrupt_checkpoint
from deltasql.imports.read.tasks import LogReader
from deltasql.imports.target import (
    FROM_VERSION,
    Target,
    abandoned_forced_imports,
    find_target,
    plan_import,
    resume_options,
)
from deltasql.imports.validate.differences import Validation
from deltasql.imports.validate.validator import (
    Verdict,
    compare,
    judge,
    remember,
    reread_source,
    verdict_of,
)
from deltasql.metastore.registry import check_name
from deltasql.metastore.table_row import NewTable, TableRow, TableState, split_name
from deltasql.protocol.codec import dump_values
from deltasql.protocol.properties import read_interval
from deltasql.protocol.schema.types import parse_schema
from deltasql.runtime.connection import Connection
from deltasql.storage.memory import MemoryStore
from deltasql.storage.port import ObjectStore
from deltasql.storage.resolve import canonical_location, location_key

# A source that changes under our hands is planned anew this often before we give up.
PLANS = 10


def reader_of(
    connection: Connection, engine: Engine, store: ObjectStore, *, lenient: bool = False
) -> LogReader:
    """Return what does the tasks of an engine on the log of a store."""
    opener = connection.stores.opener(store.uri)
    if not isinstance(engine, LocalEngine):
        return LogReader(opener, lenient)
    # what a caller put around its store is not in other processes, nor is what memory holds
    is_near = connection.stores.wrap is not None or isinstance(store, MemoryStore)
    return LogReader(lambda: store, lenient, elsewhere=None if is_near else opener)


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What of a table is imported, and over what it may go.

    `ends_claim` is for a cut-over whose claim stands in the log above commits that SQL lacks.
    """

    up_to_version: int | None = None
    from_version: int | None = None
    checkpoint_only: bool = False
    lenient: bool = False
    resume: bool = False
    force: bool = False
    validate: bool = True
    accept_differences: bool = False
    index: bool = True
    ends_claim: bool = False

    @property
    def plan(self) -> PlanOptions:
        """What of the log is wanted."""
        return PlanOptions(
            self.up_to_version, self.checkpoint_only, self.lenient, self.from_version
        )


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did."""

    table: str
    table_id: str
    source: str
    engine: str
    plan: ImportPlan = field(repr=False)
    counts: LoadCounts
    row: TableRow = field(repr=False)
    validation: Validation | None = None

    @property
    def warnings(self) -> tuple[PlanWarning, ...]:
        """What a reader of the log would pass over."""
        unreadable = self.validation.unreadable if self.validation else ()
        return (*self.plan.warnings, *map(corrupt_checkpoint, unreadable))


@dataclass(slots=True)
class TableImport:
    """One import from its plan to a table that can be read."""

    connection: Connection
    source: str
    name: str
    options: ImportOptions = ImportOptions()
    engine: Engine = field(default_factory=LocalEngine)
    observe: Observer = lambda _: None

    def run(self) -> Imported:
        """Import the table; it is `read_only` afterwards.

        Raises:
            TableExistsError: the name or the place is taken, and neither resume nor force is told.
            NotResumableError: what SQL has is not an earlier part of this source.
            LogGapError, MalformedActionError, UnsupportedFeatureError: the log cannot be imported;
                whole versions before the fault stay for `resume`.
        """
        namespace, short = split_name(self.name)
        check_name(namespace, short)
        place = canonical_location(self.source)
        store = self.connection.store_at(place)
        new = NewTable("", namespace, short, place, location_key(place))
        self.options, begun = resume_options(self.connection, new, self.options)
        plan = plan_import(store, begun, self.options)
        new = replace(new, properties=self._properties(place))
        target = find_target(self.connection, new, plan, self.options)
        importing = Importing.into(self.connection.metastore.database)
        if self.options.force:
            for left in abandoned_forced_imports(self.connection, new):
                importing.erase(left.table_id)
        row = self._begin(importing, target, plan)
        loader = Loader(importing, self.engine, self.connection.now_ms, self.observe)
        loader.witness.oldest = plan.oldest
        begun = row
        plan, row = self._load(loader, plan, row, store)
        self._require_columns(importing, row)
        row = self._drop_history(loader, plan, row)
        with self._indexing(loader, plan, row):
            outcome = self._validate(loader, plan, begun, row)
        if target.replaces is not None:
            self._require_equal(importing, row, outcome)
        swap = None if target.replaces is None else Swap(target.replaces, new)
        row = importing.finish(row.table_id, TableState.READ_ONLY, swap)
        done = (self.name, row.table_id, store.uri, self.engine.name)
        return Imported(*done, plan, loader.counts, row, outcome)

    @contextmanager
    def _indexing(self, loader: Loader, plan: ImportPlan, row: TableRow) -> Iterator[None]:
        """Index the statistics meanwhile: the comparison leaves half of two cores idle."""
        if not self.options.index:
            yield
            return
        stop = Event()
        with ThreadPoolExecutor(1, thread_name_prefix="deltasql-index") as pool:
            indexed = pool.submit(loader.importing.index, row.table_id, stop)
            try:
                yield
                loader.tell("Indexing statistics", plan, row.current_version)
                indexed.result()
            except BaseException:
                stop.set()
                raise

    def _validate(
        self, loader: Loader, plan: ImportPlan, begun: TableRow, row: TableRow
    ) -> Validation | None:
        """Compare what came with what the log said; what was compared before is not again."""
        if not self.options.validate:
            if row.current_version > begun.current_version:
                remember(self.connection, row, Verdict.SKIPPED)
            return None
        since = plan.first
        witness = loader.witness
        if begun.current_version >= begun.first_version or witness.missed_state:
            if begun.state is TableState.READ_ONLY and verdict_of(begun) is Verdict.EQUAL:
                since = begun.current_version
                if since == row.current_version:
                    return None
            else:
                store = self.connection.store_of(row)
                plan, witness = reread_source(store, row, self.engine, self._reader(store))
                since = plan.first
        loader.tell("Validating", plan, row.current_version)
        outcome = compare(self.connection, row, plan, witness, since=since)
        judge(self.connection, row, outcome, accept=self.options.accept_differences)
        return outcome

    def _require_equal(
        self, importing: Importing, row: TableRow, outcome: Validation | None
    ) -> None:
        """Let a table be replaced by its equal only."""
        if outcome is None or outcome.is_equal or self.options.accept_differences:
            return
        importing.erase(row.table_id)
        raise ImportDifferenceError(
            f"The import of {self.source} differs from its log; {self.name} stays as it was. "
            f"First: {next(outcome.lines())}.",
            hint="`accept_differences=True` takes it all the same.",
        )

    def _begin(self, importing: Importing, target: Target, plan: ImportPlan) -> TableRow:
        row = target.row
        if row is None:
            return importing.begin(target.new, plan.first)
        if row.current_version < row.first_version != plan.first:
            return self._begin_again(importing, plan, row)
        return row

    def _load(
        self, loader: Loader, plan: ImportPlan, row: TableRow, store: ObjectStore
    ) -> tuple[ImportPlan, TableRow]:
        """Load the plan; of an import that has no whole version then, nothing is left."""
        try:
            return self._load_some_plan(loader, plan, row, store)
        except BaseException:
            loader.importing.give_up(row.table_id)
            raise

    def _load_some_plan(
        self, loader: Loader, plan: ImportPlan, row: TableRow, store: ObjectStore
    ) -> tuple[ImportPlan, TableRow]:
        """Load the plan; a source that its own cleanup changes meanwhile is planned anew."""
        reader = self._reader(store)
        if row.state is TableState.READ_ONLY:
            loader.witness.begin_with(self.connection.metastore.snapshot(row.table_id))
        for left in reversed(range(PLANS)):
            try:
                loader.load(plan, row, store, reader)
            except SourceChangedError:
                if not left:
                    raise
                now = self.connection.metastore.table_by_id(row.table_id)
                plan = plan_import(store, now, self.options)
            except GroundError as error:
                plan = plan.without_base(error.message)
                loader.forget()
                row = self._begin_again(loader.importing, plan, row)
            else:
                return plan, self.connection.metastore.table_by_id(row.table_id)
            row = self.connection.metastore.table_by_id(row.table_id)
        raise AssertionError("unreachable")

    def _begin_again(self, importing: Importing, plan: ImportPlan, row: TableRow) -> TableRow:
        """Begin with another checkpoint; what came of the corrupt one goes."""
        importing.erase(row.table_id)
        new = NewTable(
            row.table_id,
            row.namespace,
            row.name,
            row.location,
            row.location_key,
            self._properties(row.location),
        )
        return importing.begin(new, plan.first)

    def _drop_history(self, loader: Loader, plan: ImportPlan, row: TableRow) -> TableRow:
        """Drop the versions that were read only for the state that they lead to."""
        oldest = self.options.from_version or 0
        if row.state is not TableState.IMPORTING or oldest <= row.first_version:
            return row
        loader.tell("Dropping older versions", plan, row.current_version)
        configuration = self.connection.metastore.snapshot(row.table_id).metadata.configuration
        try:
            kept = read_interval(configuration, "delta.deletedFileRetentionDuration")
        except BadArgumentError:  # another writer's spelling
            kept = timedelta.max
        return loader.importing.drop_below(row, oldest, tombstones=kept)

    def _require_columns(self, importing: Importing, row: TableRow) -> None:
        """Refuse files without a schema: nobody can read them."""
        snapshot = self.connection.metastore.snapshot(row.table_id)
        empty = not parse_schema(snapshot.metadata.schema_string).fields
        if empty and not self.options.lenient and snapshot.files(columns=("path",)).num_rows:
            if row.state is TableState.IMPORTING:
                importing.erase(row.table_id)
            raise no_columns_error(row.location)

    def _reader(self, store: ObjectStore) -> LogReader:
        return reader_of(self.connection, self.engine, store, lenient=self.options.lenient)

    def _properties(self, place: str) -> str:
        notes: dict[str, Any] = {"source_uri": place, "last_imported_version": -1}
        if self.options.from_version:
            notes[FROM_VERSION] = self.options.from_version
        return dump_values({"import_metadata": notes})


def no_columns_error(location: str) -> MalformedActionError:
    """Return the error for files without a schema."""
    return MalformedActionError(
        f"The table at {location} has files and no schema.",
        hint="Its last metaData lacks schemaString; `lenient=True` imports it without columns.",
    )
