"""A write of Arrow data in the making: input, files and actions until they are committed.

Operations see the snapshot that was pinned first plus what was staged before them: a file added
and removed again inside the transaction never reaches the commit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from weakref import WeakSet, finalize

import msgspec
import pyarrow as pa

from deltasql.api.detail import check_filter, columns_or_none, is_token, is_whole
from deltasql.api.scan import Scan
from deltasql.api.session import Session
from deltasql.api.write.compaction import choose_groups, files_to_scan, rewrite, write_spec
from deltasql.api.write.in_flight import require_present
from deltasql.api.write.operations import (
    Planned,
    live_adds,
    partition_filter,
    plan_append,
    plan_compact,
    plan_delete,
    plan_overwrite,
    require_active,
)
from deltasql.api.write.schema_changes import SchemaMode, fitted_snapshot, require_replaced
from deltasql.data.writer import WriteSpec, write_files
from deltasql.errors import BadArgumentError, DeltaSqlError, InvalidCommitError, SchemaError
from deltasql.metastore.commit.request import CommitNote, CommitRequest, TableRead
from deltasql.metastore.snapshot.file_list import ACTION_COLUMNS, adds_of
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.metastore.table_row import TableState
from deltasql.protocol.actions import Action, Add, FileKey, Txn, file_key
from deltasql.protocol.changes import NetActions
from deltasql.protocol.codec import decode_commit, from_json_object
from deltasql.protocol.conflicts import ReadSet
from deltasql.protocol.features import require_writable
from deltasql.protocol.predicate import Predicate, may_match
from deltasql.protocol.schema.arrow import to_arrow_schema, to_arrow_type
from deltasql.protocol.schema.columns import find_field, loosen_columns
from deltasql.protocol.schema.types import Decimal, StructType
from deltasql.protocol.stats.parse import parse_stats
from deltasql.protocol.validate import check_commit
from deltasql.runtime.connection import Connection
from deltasql.storage.port import ObjectStore

_NOT_CONVERTED = (pa.ArrowException, OverflowError, TypeError, ValueError)


def to_reader(data: Any, schema: StructType) -> pa.RecordBatchReader:
    """Return a stream over pyarrow, Polars, DuckDB, pandas, or anything with the Arrow PyCapsule.

    A list of dicts gets a column for every key of any row; `schema` is that of the table.

    Raises:
        BadArgumentError: the value holds no rows that Arrow knows of, or was read before.
        SchemaError: rows or columns have no Arrow type.
    """
    if isinstance(data, pa.RecordBatchReader):
        _consumed.take(data)
        return data
    if isinstance(data, pa.Table):
        return data.to_reader()
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if hasattr(data, "__arrow_c_stream__"):
        return _from_stream(data)
    if isinstance(data, list) and all(isinstance(row, dict) for row in data):
        return _from_rows(data, schema).to_reader()
    raise BadArgumentError(
        f"A {type(data).__name__} cannot be written.",
        hint="Give a pyarrow Table, a Polars, pandas or DuckDB frame, or a list of dicts.",
    )


class _ConsumedReaders:
    """The readers that a write has read: a second write would find no rows in them."""

    def __init__(self) -> None:
        self._readers: WeakSet[pa.RecordBatchReader] = WeakSet()
        self._lock = threading.Lock()

    def take(self, reader: pa.RecordBatchReader) -> None:
        with self._lock:
            if reader in self._readers:
                raise BadArgumentError(
                    "The RecordBatchReader was read by an earlier write; its rows are gone.",
                    hint="Make a new reader for each attempt, or give a pyarrow Table.",
                )
            self._readers.add(reader)


_consumed = _ConsumedReaders()


def _from_stream(data: Any) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(data)
    except DeltaSqlError:  # of a scan of ours
        raise
    except (*_NOT_CONVERTED, OSError) as error:
        raise SchemaError(f"The {type(data).__name__} cannot be read as Arrow: {error}.") from error


def _from_rows(rows: Sequence[dict[str, Any]], schema: StructType) -> pa.Table:
    if not rows:
        return to_arrow_schema(loosen_columns(schema)).empty_table()
    names = list(dict.fromkeys(name for row in rows for name in row))
    other = next((name for name in names if not isinstance(name, str)), None)
    if other is not None:
        raise BadArgumentError(f"The key {other!r} of a row is not the name of a column.")
    columns = [_column(name, [row.get(name) for row in rows], schema) for name in names]
    # a batch of no columns would lose its rows
    return pa.table(columns, names) if names else pa.table({"": pa.nulls(len(rows))}).select([])


def _column(name: str, values: Sequence[Any], schema: StructType) -> pa.Array:
    """Return values as what they are; integers beyond 64 bits fit a decimal column only."""
    try:
        return pa.array(values)
    except _NOT_CONVERTED as error:
        field = find_field(schema, name)
        if field is None or not isinstance(field.type, Decimal):
            raise _no_type(name, error) from error
    try:
        return pa.array(values, to_arrow_type(field.type))
    except _NOT_CONVERTED as error:
        raise _no_type(name, error) from error


def _no_type(name: str, error: Exception) -> SchemaError:
    return SchemaError(f"The values of column {name} have no common type: {error}.", column=name)


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """What a caller may say about a commit besides its actions."""

    commit_id: str | None = None
    expected_version: int | None = None
    user_metadata: str | None = None
    txn: tuple[str, int] | None = None
    operation: str | None = None

    def __post_init__(self) -> None:
        """Refuse what looks like a token or a version and is none.

        Raises:
            BadArgumentError: names the option.
        """
        if self.commit_id is not None and not is_token(self.commit_id):
            raise BadArgumentError(
                f"commit_id is {self.commit_id!r}; a token is a text that is not empty."
            )
        if self.expected_version is not None and not is_whole(self.expected_version):
            raise BadArgumentError(
                f"expected_version is {self.expected_version!r}, not the number of a version."
            )
        if self.txn is not None and not _is_txn(self.txn):
            raise BadArgumentError(
                f"txn is {self.txn!r}, not the id of an application and its version."
            )


class TableWrite:
    """One table inside a transaction."""

    def __init__(self, session: Session, snapshot: Snapshot) -> None:
        self._session = session
        self.snapshot = snapshot
        self._net = NetActions(self._live_among)
        self._read = ReadSet(snapshot.version)
        self._notes: list[CommitNote] = []
        self._expected: int | None = None
        self._restores: int | None = None
        self._work: str | None = None
        self._forget: finalize[Any, Any] | None = None
        self._is_required = False
        self._has_ended = False

    @property
    def _connection(self) -> Connection:
        return self._session.connection

    @property
    def is_empty(self) -> bool:
        """Tell whether a commit would change nothing."""
        return not self._is_required and not self._net.actions

    @property
    def was_written(self) -> bool:
        """Tell whether anything was staged, even if it changes nothing."""
        return bool(self._notes)

    def read_whole(self) -> None:
        """Count the table as read from end to end: whatever is committed to it now conflicts."""
        self._require_open()
        self._read = replace(self._read, whole_table=True)

    def expect_unchanged(self) -> None:
        """Let the commit take no version but the next one after the snapshot's."""
        self._require_open()
        self._expected = self.snapshot.version

    def scan(self, columns: Sequence[str] | None = None, where: str | None = None) -> Scan:
        """Return the rows to read: those of the pinned version and what was staged since.

        They count as read: a commit of others that adds or removes such rows conflicts.
        """
        self._require_open()
        check_filter(where)
        chosen = columns_or_none(columns)
        predicate = self.snapshot.predicate(where)
        files = [add for add in self.live_files(where) if _may_match(predicate, add)]
        if predicate is None:
            self.read_whole()
        else:
            read = ReadSet(
                self.snapshot.version,
                matches=partial(_may_match, predicate),
                files=frozenset(file_key(add) for add in files),
            )
            self._read = _merged(self._read, read)
        session, place = self._session, self.snapshot.table.location
        return Scan(
            self.snapshot,
            self.store,
            chosen,
            where,
            (place,),
            session.connection.store_at,
            files_to_scan(files),
        )

    def append(self, data: Any, *, schema_mode: SchemaMode = "strict") -> None:
        """Write the rows as new files, to be added by the commit."""
        self._require_open()
        reader = to_reader(data, self.snapshot.schema)
        fitted = self.fit(reader.schema, schema_mode)
        if schema_mode == "overwrite":
            self._require_replaced(fitted, lambda _: True)
        self.stage(plan_append(self.snapshot, self._write(fitted, reader)), fitted)

    def overwrite(
        self, data: Any, *, where: str | None = None, schema_mode: SchemaMode = "strict"
    ) -> None:
        """Write the rows and remove all others, or those of the partitions that `where` names."""
        self._require_open()
        check_filter(where)
        reader = to_reader(data, self.snapshot.schema)
        fitted = self.fit(reader.schema, schema_mode)
        if schema_mode == "overwrite" and where is not None:
            matches = partition_filter(self.snapshot, where)
            self._require_replaced(fitted, lambda add: not matches(add))
        adds = self._write(fitted, reader)
        live = self.live_files(where)
        self.stage(plan_overwrite(self.snapshot, adds, where, live=live), fitted)

    def delete(self, where: str) -> None:
        """Remove all files of the partitions that `where` names."""
        self._require_open()
        partition_filter(self.snapshot, where)  # refuses what is no filter of partitions
        self.stage(plan_delete(self.snapshot, where, live=self.live_files(where)))

    def compact(self, where: str | None = None, target_size: int | None = None) -> None:
        """Write the rows of small files into bigger ones, to take their place."""
        self._require_open()
        require_active(self.snapshot)
        chosen = None if where is None else partition_filter(self.snapshot, where)
        files = [add for add in self.live_files(where) if chosen is None or chosen(add)]
        session = self._session
        spec = write_spec(
            self.snapshot,
            session.connection.new_id,
            session.connection.now_ms(),
            target_size=target_size,
            data_change=False,
        )
        groups = choose_groups(files, spec.file_size)
        if not groups:
            return
        session.require_root(self.snapshot.table)
        self.begin_writing()
        with self.writing_data():
            new = [
                add for group in groups for add in rewrite(group, self.snapshot, self.store, spec)
            ]
        old = [add for group in groups for add in group]
        self.stage(plan_compact(self.snapshot, old, new))

    def commit(
        self, actions: Iterable[Action | Mapping[str, Any]], *, expected_version: int | None = None
    ) -> None:
        """Stage Delta actions as they are."""
        given = tuple(to_actions(actions))
        if len(given) > 1:  # folding would hide a contradiction; one action has none
            check_commit(given, partition_columns=None)
        self._expected = expected_version if expected_version is not None else self._expected
        only_adds = all(isinstance(action, Add | Txn) for action in given)
        read = ReadSet(self.snapshot.version, whole_table=not only_adds)
        self.stage(Planned(given, read, CommitNote("WRITE" if only_adds else "COMMIT")))

    def stage(self, planned: Planned, fitted: Snapshot | None = None) -> None:
        """Fold planned actions into the commit."""
        self._require_open()
        rules: list[Action] = []
        if fitted is not None and fitted.metadata != self.snapshot.metadata:
            rules.append(fitted.metadata)
            if fitted.protocol != self.snapshot.protocol:
                rules.append(fitted.protocol)
            self.snapshot = fitted
        self._net.commit((*rules, *planned.actions))
        self._read = _merged(self._read, planned.read)
        self._restores = planned.restores if planned.restores is not None else self._restores
        self._notes.append(planned.note)
        self._is_required = self._is_required or planned.is_required

    def live_files(self, where: str | None = None) -> list[Add]:
        """Return the files that the table has after what was staged.

        With a filter, of the pinned version's those that it may touch.
        """
        staged = self._net.adds
        gone = self._net.removes.keys() | staged.keys()
        before = live_adds(self.snapshot, where)
        kept = [add for add in before if file_key(add) not in gone] if gone else before
        return [*kept, *staged.values()]

    @property
    def store(self) -> ObjectStore:
        """Where the table's files are."""
        return self._connection.store_of(self.snapshot.table)

    def fit(self, schema: pa.Schema | StructType, schema_mode: SchemaMode) -> Snapshot:
        """Return the table as rows of this schema will leave it.

        Raises:
            TableStateError, UnsupportedFeatureError, SchemaError: it cannot take them.
        """
        require_active(self.snapshot)
        require_writable(self.snapshot.protocol, self.snapshot.table.full_name)
        return fitted_snapshot(self.snapshot, schema, schema_mode)

    def write_spec(self, fitted: Snapshot, *, data_change: bool = True) -> WriteSpec:
        """Return what a writer of new files must know."""
        session = self._session
        return write_spec(
            fitted, session.connection.new_id, session.connection.now_ms(), data_change=data_change
        )

    def begin_writing(self, began_ms: int | None = None) -> None:
        """Tell that files are written from now on, or were since then; `end` tells the end."""
        self._require_open()
        if self._work is None:
            open_work = self._session.in_flight
            self._work = open_work.begin(self.snapshot.table.table_id, began_ms)
            self._forget = finalize(self, open_work.forget, self._work)
            self._forget.atexit = False

    def end(self) -> None:
        """End the write: it is committed, or given up, and takes nothing more."""
        self._has_ended = True
        work, self._work = self._work, None
        if work is not None:
            if self._forget is not None:
                self._forget.detach()
            self._session.in_flight.end(work)

    def _require_open(self) -> None:
        if self._has_ended:
            raise BadArgumentError(
                f"The transaction has ended; nothing more can be done to "
                f"{self.snapshot.table.full_name} in it.",
                hint="Begin a new transaction.",
            )

    def request(
        self, options: CommitOptions, commit_id: str, state_after: TableState = TableState.ACTIVE
    ) -> CommitRequest:
        """Return everything that was staged as one request."""
        actions = self._net.actions
        if options.txn is not None:
            app_id, version = options.txn
            now = self._connection.now_ms()
            actions.append(Txn(app_id=app_id, version=version, last_updated=now))
        expected = self._expected if options.expected_version is None else options.expected_version
        return CommitRequest(
            self.snapshot.table.table_id,
            tuple(actions),
            self._read,
            self._note(options),
            commit_id,
            expected_version=expected,
            state_after=state_after,
            known=self.snapshot.table,
            restores=self._restores,
            work_id=self._slow_work(),
        )

    def as_read(self, commit_id: str) -> TableRead | None:
        """Return what was read of a table to which nothing was done, or None for nothing."""
        if self._read.is_empty:
            return None
        row = self.snapshot.table
        return TableRead(row.table_id, self._read, CommitNote("READ"), commit_id, row)

    def _slow_work(self) -> str | None:
        """Return the id of a write that took long; its files are made sure of."""
        if self._work is None or not self._session.in_flight.settle(self._work):
            return None
        require_present(self._net.adds.values(), self._connection.store_of(self.snapshot.table))
        return self._work

    def _note(self, options: CommitOptions) -> CommitNote:
        first = self._notes[0] if len(self._notes) == 1 else _joined(self._notes)
        return replace(
            first,
            operation=options.operation or first.operation,
            user_metadata=options.user_metadata or first.user_metadata,
            committer=self._connection.user.name,
            client=self._connection.user.client,
        )

    def writing_data(self) -> AbstractContextManager[None]:
        """Report what keeps data files of the table from being written, inside."""
        return self._session.writing_data(self.snapshot.table)

    def _write(self, fitted: Snapshot, reader: pa.RecordBatchReader) -> list[Add]:
        with self.writing_data():
            self._session.require_root(self.snapshot.table)
            self.begin_writing()
            return write_files(reader, self.write_spec(fitted), self.store)

    def _require_replaced(self, fitted: Snapshot, stays: Callable[[Add], bool]) -> None:
        """Refuse another schema where a file stays, and let none come in meanwhile."""
        if fitted.metadata == self.snapshot.metadata:
            return
        require_replaced(self.snapshot, next(filter(stays, self.live_files()), None))
        self.read_whole()

    def _live_among(self, keys: Collection[FileKey]) -> frozenset[FileKey]:
        """Return which of these files the table has without what was staged."""
        if self.snapshot.version < self.snapshot.table.first_version:  # the table is only planned
            return frozenset()
        paths = sorted({path for path, _ in keys})
        files = self.snapshot.files_named(paths, ACTION_COLUMNS)
        return frozenset(file_key(add) for add in adds_of(files.to_batches()))


def _is_txn(txn: object) -> bool:
    return (
        isinstance(txn, tuple | list) and len(txn) == 2 and is_token(txn[0]) and is_whole(txn[1])  # noqa: PLR2004
    )


def to_actions(given: Iterable[Action | Mapping[str, Any]] | bytes | str) -> list[Action]:
    """Return actions given as values, as JSON objects, or as the text of a commit file."""
    if isinstance(given, str):
        given = given.encode()
    if isinstance(given, bytes):
        return decode_commit(given, version=None)
    return [from_json_object(one) if isinstance(one, Mapping) else one for one in given]


def _may_match(predicate: Predicate | None, add: Add) -> bool:
    return predicate is None or may_match(predicate, parse_stats(add.stats), add.partition_values)


def _merged(one: ReadSet, other: ReadSet) -> ReadSet:
    matchers = [read.matches for read in (one, other) if read.matches is not None]
    return ReadSet(
        one.version,
        one.whole_table or other.whole_table,
        (lambda add: any(matches(add) for matches in matchers)) if matchers else None,
        one.files | other.files,
        one.app_ids | other.app_ids,
    )


def _joined(notes: Sequence[CommitNote]) -> CommitNote:
    if not notes:
        raise InvalidCommitError("Nothing was staged.")
    operations = list(dict.fromkeys(note.operation for note in notes))
    if len(operations) == 1 and all(note.parameters == notes[0].parameters for note in notes):
        return replace(notes[0], metrics=_summed(notes))
    each = [{"operation": n.operation, "parameters": dict(n.parameters)} for n in notes]
    parameters = {"operations": msgspec.json.encode(each).decode()}
    return CommitNote("TRANSACTION", parameters, _summed(notes))


def _summed(notes: Sequence[CommitNote]) -> dict[str, str]:
    totals: dict[str, int] = {}
    for note in notes:
        for key, value in note.metrics.items():
            totals[key] = totals.get(key, 0) + int(value)
    return {key: str(value) for key, value in totals.items()}
