"""StagedTable: what a transaction will do to one table, folded into one commit.

Operations see the snapshot that was pinned first plus what was staged before them: a file added
and removed again inside the transaction never reaches the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec
import pyarrow as pa

from deltasql.catalog.commit_request import CommitNote, CommitRequest, TableRead
from deltasql.catalog.rows import TableState
from deltasql.catalog.snapshots import Snapshot
from deltasql.client.arrow_input import to_reader
from deltasql.client.plans import Planned, plan_append, plan_delete, plan_overwrite, require_active
from deltasql.client.presence import require_present
from deltasql.client.rewrite import write_spec
from deltasql.client.schema_changes import SchemaMode, fitted_snapshot
from deltasql.client.session import Session
from deltasql.data.writer import WriteSpec, write_files
from deltasql.errors import InvalidCommitError
from deltasql.protocol.actions import Action, Add, Remove, Txn
from deltasql.protocol.codec import decode_commit, from_json_object
from deltasql.protocol.conflicts import ReadSet
from deltasql.protocol.features import require_writable
from deltasql.protocol.identity import FileKey, file_key
from deltasql.protocol.schema import StructType
from deltasql.protocol.validate import check_commit
from deltasql.storage.port import ObjectStore

Isolated = Literal["blind", "whole"]


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """What a caller may say about a commit besides its actions."""

    commit_id: str | None = None
    expected_version: int | None = None
    user_metadata: str | None = None
    txn: tuple[str, int] | None = None
    operation: str | None = None


class StagedTable:
    """One table inside a transaction."""

    def __init__(self, session: Session, snapshot: Snapshot) -> None:
        self._session = session
        self.snapshot = snapshot
        self._adds: dict[FileKey, Add] = {}
        self._removes: dict[FileKey, Remove] = {}
        self._others: list[Action] = []
        self._read = ReadSet(snapshot.version)
        self._notes: list[CommitNote] = []
        self._expected: int | None = None
        self._restores: int | None = None
        self._work: str | None = None

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing was staged."""
        return not self._notes

    def read_whole(self) -> None:
        """Count the table as read from end to end: whatever is committed to it now conflicts."""
        self._read = replace(self._read, whole_table=True)

    def expect_unchanged(self) -> None:
        """Let the commit take no version but the next one after the snapshot's."""
        self._expected = self.snapshot.version

    def append(self, data: Any, *, schema_mode: SchemaMode = "strict") -> None:
        """Write the rows as new files, to be added by the commit."""
        reader = to_reader(data)
        fitted = self.fit(reader.schema, schema_mode)
        self.stage(plan_append(self.snapshot, self._write(fitted, reader)), fitted)

    def overwrite(
        self, data: Any, *, where: str | None = None, schema_mode: SchemaMode = "strict"
    ) -> None:
        """Write the rows and remove all others, or those of the partitions that `where` names."""
        reader = to_reader(data)
        fitted = self.fit(reader.schema, schema_mode)
        self.stage(plan_overwrite(self.snapshot, self._write(fitted, reader), where), fitted)
        self._drop_staged(where, keep=self._last_adds)

    def delete(self, where: str) -> None:
        """Remove all files of the partitions that `where` names."""
        self.stage(plan_delete(self.snapshot, where))
        self._drop_staged(where, keep=frozenset())

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
        adds = [action for action in planned.actions if isinstance(action, Add)]
        self._last_adds = frozenset(file_key(add) for add in adds)
        for action in planned.actions:
            match action:
                case Add():
                    self._stage_add(action)
                case Remove():
                    self._stage_remove(action)
                case _:
                    self._others.append(action)
        if fitted is not None and fitted.metadata != self.snapshot.metadata:
            self._others.append(fitted.metadata)
            if fitted.protocol != self.snapshot.protocol:
                self._others.append(fitted.protocol)
            self.snapshot = fitted
        self._read = _merged(self._read, planned.read)
        self._restores = planned.restores if planned.restores is not None else self._restores
        self._notes.append(planned.note)

    @property
    def store(self) -> ObjectStore:
        """Where the table's files are."""
        return self._session.store_of(self.snapshot.table)

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
        return write_spec(fitted, session.new_id, session.now_ms(), data_change=data_change)

    def begin_writing(self, began_ms: int | None = None) -> None:
        """Tell that files are written from now on, or were since then; `end` tells the end."""
        if self._work is None:
            self._work = self._session.open_work.begin(self.snapshot.table.table_id, began_ms)

    def end(self) -> None:
        """Forget what was staged: it is committed, or given up."""
        work, self._work = self._work, None
        if work is not None:
            self._session.open_work.end(work)

    def request(
        self, options: CommitOptions, commit_id: str, state_after: TableState = TableState.ACTIVE
    ) -> CommitRequest:
        """Return everything that was staged as one request."""
        actions: list[Action] = [*self._others, *self._adds.values(), *self._removes.values()]
        if options.txn is not None:
            app_id, version = options.txn
            now = self._session.now_ms()
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
        if self._work is None or not self._session.open_work.settle(self._work):
            return None
        require_present(self._adds.values(), self._session.store_of(self.snapshot.table))
        return self._work

    def _note(self, options: CommitOptions) -> CommitNote:
        first = self._notes[0] if len(self._notes) == 1 else _joined(self._notes)
        return replace(
            first,
            operation=options.operation or first.operation,
            user_metadata=options.user_metadata or first.user_metadata,
            committer=self._session.committer,
            client=self._session.client,
        )

    def _write(self, fitted: Snapshot, reader: pa.RecordBatchReader) -> list[Add]:
        self.begin_writing()
        return write_files(reader, self.write_spec(fitted), self.store)

    def _stage_add(self, add: Add) -> None:
        self._removes.pop(file_key(add), None)
        self._adds[file_key(add)] = add

    def _stage_remove(self, remove: Remove) -> None:
        key = file_key(remove)
        if self._adds.pop(key, None) is None:
            self._removes[key] = remove

    def _drop_staged(self, where: str | None, keep: frozenset[FileKey]) -> None:
        from deltasql.client.plans import partition_filter  # noqa: PLC0415 (rare)

        matches = None if where is None else partition_filter(self.snapshot, where)
        for key, add in list(self._adds.items()):
            if key not in keep and (matches is None or matches(add)):
                del self._adds[key]


def to_actions(given: Iterable[Action | Mapping[str, Any]] | bytes | str) -> list[Action]:
    """Return actions given as values, as JSON objects, or as the text of a commit file."""
    if isinstance(given, str):
        given = given.encode()
    if isinstance(given, bytes):
        return decode_commit(given, version=None)
    return [from_json_object(one) if isinstance(one, Mapping) else one for one in given]


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
