"""Many statements, many tables, one commit: stock Delta Spark at work on staged logs.

    with deltasql.spark.transaction(spark, uri) as tx:
        tx.sql("MERGE INTO orders USING updates ON orders.id = updates.id WHEN MATCHED ...")
        tx.sql("UPDATE totals SET amount = (SELECT sum(amount) FROM orders)")

All tables are pinned at one moment. The first time a table is named its state is written as a
staged log below its root; Delta Spark runs the statements there, each seeing those before it. The
end of the block folds what it did into one commit for each table and makes them all in one SQL
transaction. Every table that was named counts as wholly read, also one that was only read: if
anybody committed to it meanwhile, everything is refused. See `names` for how names are bound.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from deltasql.api.transaction import Transaction
from deltasql.api.write.operations import Planned, require_active
from deltasql.crash import crash_point
from deltasql.errors import BadArgumentError, CommitConflictError, TableNotFoundError
from deltasql.metastore.commit.request import CommitNote
from deltasql.metastore.table_row import TableRow
from deltasql.protocol.actions import Action, Add, CommitInfo
from deltasql.protocol.conflicts import Isolation, ReadSet, isolation_of
from deltasql.protocol.features import require_writable
from deltasql.protocol.log_names import STAGED_PREFIX
from deltasql.protocol.properties import read_bool
from deltasql.settings import Settings
from deltasql.spark.session.address import open_catalog
from deltasql.spark.session.delta_jar import forget_log, hadoop_spelling, require_delta
from deltasql.spark.session.spark_session import named_jobs
from deltasql.spark.transactions.path_translation import CHANGE_FEED, StagedPlace, second_write
from deltasql.spark.transactions.staged_log import StagedLog, local_root, write_staged_log
from deltasql.spark.transactions.statement import Named, Statement, parse_statement, places_of
from deltasql.spark.transactions.table_names import Names, PinnedTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TOGETHER = "TRANSACTION"
_UNKNOWN = "WRITE"

_logger = logging.getLogger(__name__)
T = TypeVar("T")


def note_of(infos: Sequence[CommitInfo]) -> CommitNote:
    """Return the note of one commit: of one statement Delta's own words, of several each of them.

    Counts are summed up; times and sizes of single statements stay with them.
    """
    notes = [_one(info) for info in infos]
    if len(notes) == 1:
        return notes[0]
    each = [
        {
            "operation": note.operation,
            "parameters": dict(note.parameters),
            "metrics": dict(note.metrics),
        }
        for note in notes
    ]
    parameters = {"operations": msgspec.json.encode(each).decode()}
    told = [note.user_metadata for note in notes if note.user_metadata is not None]
    return CommitNote(
        _TOGETHER, parameters, _summed(notes), user_metadata=told[-1] if told else None
    )


def _one(info: CommitInfo) -> CommitNote:
    return CommitNote(
        str(info.operation or _UNKNOWN),
        _texts(info.operation_parameters),
        _texts(info.operation_metrics),
        user_metadata=info.user_metadata,
    )


def _texts(values: Any) -> Mapping[str, Any]:
    return dict(values) if isinstance(values, dict) else {}


def _summed(notes: Sequence[CommitNote]) -> dict[str, str]:
    totals: dict[str, int] = {}
    for note in notes:
        for key, value in note.metrics.items():
            if key.startswith("num") and str(value).isdecimal():
                totals[key] = totals.get(key, 0) + int(value)
    return {key: str(value) for key, value in totals.items()}


@dataclass(slots=True)
class _Staged:
    log: StagedLog
    settled: int = 0
    is_named: bool = False
    is_only_moved: bool = True


@dataclass(slots=True)
class SparkTransaction:
    """Statements of Spark's SQL on the tables of a catalog; made by `transaction`.

    What it returns is of use inside the block only: the staged logs end with it.
    """

    spark: SparkSession
    _inner: Transaction
    _tables: PinnedTables
    _names: Names
    _staged: dict[str, _Staged] = field(default_factory=dict)

    def sql(self, statement: str) -> DataFrame:
        """Run a statement that names tables of the catalog by their names.

        Raises:
            BadArgumentError: it is none that a transaction can take back, or writes elsewhere.
            InvalidCommitError: a second write to a table with a change feed.
        """
        parsed = parse_statement(self.spark, statement)
        ours = self._ours(parsed)
        for named, row in ours:
            staged = self._stage(row)
            staged.is_only_moved &= parsed.only_moves_rows
            if named.is_target:
                _refuse_second_write(staged.log)
            if not staged.is_named:
                self._names.register(row, staged.log.path)
                staged.is_named = True
        with named_jobs(self.spark, f"deltasql: {parsed.kind}"):
            return self._names.run(parsed, ours)

    def table(self, name: str) -> DataFrame:
        """Return a table as the transaction sees it."""
        return self.spark.read.format("delta").load(self.path(name))

    def path(self, name: str) -> str:
        """Return where the staged table lies, for DataFrame writers and `DeltaTable.forPath`."""
        row = self._tables.find(name)
        if row is None:
            raise TableNotFoundError(f"There is no table {name!r} in the catalog.", table=name)
        staged = self._stage(row)
        staged.is_only_moved = False
        return staged.log.path

    @property
    def transaction_id(self) -> str:
        """The id that all its commits carry."""
        return self._inner.transaction_id

    @property
    def versions(self) -> Mapping[str, int]:
        """The version each table got, by its name; empty before the commit."""
        return self._inner.versions

    def _ours(self, statement: Statement) -> list[tuple[Named, TableRow]]:
        """Return the tables of the catalog that a statement names; refuse what is ambiguous."""
        paths = {staged.log.path for staged in self._staged.values()}
        found = []
        for named in statement.names:
            row = self._tables.find(named.text)
            if row is None:
                self._refuse_attached(named)
                self._tables.refuse_stranger(named, paths)
                self._refuse_behind(named)
                continue
            if len(named.parts) == 1 and self._names.is_view_of_another(
                named.parts[0], row.full_name
            ):
                raise BadArgumentError(
                    f"{named.text} is both a temporary view and a table of the catalog.",
                    hint="Give the view another name.",
                )
            if named.is_of_the_past:
                raise BadArgumentError(
                    f"A transaction sees one version of {row.full_name}, none of the past.",
                    hint="Read the older version before, and give it as a temporary view.",
                )
            found.append((named, row))
        for row in (row for named, row in found if named.is_target):
            snapshot = self._inner.table(row.full_name).snapshot
            require_active(snapshot)
            require_writable(snapshot.protocol, row.full_name)
        return found

    def _refuse_attached(self, named: Named) -> None:
        """A view of a table shows another version than the transaction, and is not checked."""
        table = self._names.attached_table(named.parts[0]) if len(named.parts) == 1 else None
        if table is not None:
            raise BadArgumentError(
                f"{named.text} is a view of the table {table}, not of what the transaction sees.",
                hint=f"Name the table: {table}.",
                table=table,
            )

    def _refuse_behind(self, named: Named) -> None:
        """A temporary view is what its user made of it; what lasts may hide a table of ours."""
        is_temporary = len(named.parts) == 1 and self._names.is_view(named.parts[0])
        if not is_temporary and named.parts[0].lower() != "delta":
            self._tables.refuse_table_behind(named, places_of(self.spark, named.parts))

    def _stage(self, row: TableRow) -> _Staged:
        if row.full_name not in self._staged:
            table = self._inner.table(row.full_name)
            root = local_root(table.snapshot)
            table.read_whole()
            table.begin_writing()
            folder = f"{STAGED_PREFIX}{uuid.uuid4().hex}"
            place = StagedPlace(row.full_name, hadoop_spelling(self.spark, str(root)), folder)
            log = write_staged_log(table.snapshot, root, place)
            self._staged[row.full_name] = _Staged(log)
            crash_point("after-spark-staging")
        self._settle(self._staged[row.full_name])
        return self._staged[row.full_name]

    def _settle(self, staged: _Staged) -> None:
        """Let the next statement see the rows of those before as the commit will have them."""
        fresh = list(staged.log.commits_after(staged.settled))
        if staged.log.settle_versions(fresh):
            forget_log(self.spark, staged.log.path)
        staged.settled += len(fresh)

    def _fold(self) -> None:
        """Stage what Delta Spark did as one commit for each table."""
        for name, staged in self._staged.items():
            commits = staged.log.commits()
            if not commits:
                continue
            table = self._inner.table(name)
            actions = tuple(staged.log.folded(commits))
            read = ReadSet(table.snapshot.version, whole_table=True)
            table.stage(Planned(actions, read, note_of([commit.info for commit in commits])))
            # Compacted files alone would not be protected from appends that others read over.
            is_loose = isolation_of(actions) is Isolation.SNAPSHOT and not staged.is_only_moved
            if is_loose or _names_its_version(actions):
                table.expect_unchanged()

    def _end(self) -> None:
        """Forget the staged logs; nothing here can undo the commit."""
        try:
            self._names.end()
            for staged in self._staged.values():
                forget_log(self.spark, staged.log.path)
        except Exception as error:  # noqa: BLE001 (Spark may be gone, and has errors of its own)
            _logger.warning("Spark still knows the staged tables: %s", type(error).__name__)
        for staged in self._staged.values():
            staged.log.remove()


@contextmanager
def transaction(
    spark: SparkSession,
    uri: str | None = None,
    *,
    user_metadata: str | None = None,
    commit_id: str | None = None,
    txn: tuple[str, int] | None = None,
    settings: Settings | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Iterator[SparkTransaction]:
    """Open a transaction; the end of the block commits, an exception inside forgets everything.

    `txn=(app, version)` makes a repetition a no-op: a batch of a stream is written once.

    Raises:
        CommitConflictError: somebody committed to a table that was named; nothing is committed.
        MissingExtraError: Delta Spark is not in the session.
    """
    require_delta(spark)
    with (
        open_catalog(uri, settings=settings, storage_options=storage_options) as catalog,
        catalog.transaction(user_metadata=user_metadata, commit_id=commit_id, txn=txn) as inner,
    ):
        names = Names(spark, f"deltasql_tx_{uuid.uuid4().hex}", catalog.catalog_id)
        tx = SparkTransaction(spark, inner, PinnedTables.of(inner.pin()), names)
        try:
            yield tx
            tx._fold()  # noqa: SLF001 (the two halves of one thing)
            crash_point("before-spark-commit")
            inner.commit()
            crash_point("after-spark-commit")
        finally:
            tx._end()  # noqa: SLF001


def run_transaction(
    spark: SparkSession,
    uri: str | None,
    work: Callable[[SparkTransaction], T],
    *,
    retries: int = 3,
    user_metadata: str | None = None,
    settings: Settings | None = None,
) -> T:
    """Run a function inside a transaction, again on new state if its commit conflicts.

    Raises:
        CommitConflictError: it still conflicts after so many retries; nothing is committed.
    """
    for left in range(retries, -1, -1):
        try:
            with transaction(spark, uri, user_metadata=user_metadata, settings=settings) as tx:
                done = work(tx)
        except CommitConflictError as error:
            if left == 0:
                raise
            _logger.info("The transaction runs again: %s", error.message)
        else:
            return done
    raise BadArgumentError("A transaction cannot be retried less than 0 times.")


def sql(
    spark: SparkSession,
    uri: str | None,
    statement: str,
    *,
    user_metadata: str | None = None,
    settings: Settings | None = None,
) -> DataFrame:
    """Run one statement that writes to a table of the catalog, and return what Spark tells of it.

    Raises:
        BadArgumentError: it only reads, or is none that a transaction can take back.
        CommitConflictError: somebody committed to a table that it names; nothing is committed.
    """
    with transaction(spark, uri, user_metadata=user_metadata, settings=settings) as tx:
        if parse_statement(spark, statement).is_query:
            raise BadArgumentError(
                "The statement writes to no table.",
                hint="Read with deltasql.spark.read, or inside of deltasql.spark.transaction.",
            )
        return tx.sql(statement)


def _refuse_second_write(log: StagedLog) -> None:
    """Refuse early what folding would refuse after the work is done."""
    if not read_bool(log.snapshot.metadata.configuration, CHANGE_FEED):
        return
    if any(commit.has_files for commit in log.commits()):
        raise second_write(log.snapshot.table.full_name)


def _names_its_version(actions: Sequence[Action]) -> bool:
    return any(isinstance(a, Add) and a.default_row_commit_version is not None for a in actions)
