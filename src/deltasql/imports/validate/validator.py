"""Does SQL mean what the source log says? Every version is compared.

The witness saw the log's own words; the newest checkpoint of the source, where there is one, was
written by somebody else. Both are compared with what SQL has: the bytes of every commit, the state
at the newest version, and from when to when every file was live, which is the files of all
versions.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from deltasql.errors import BadArgumentError
from deltasql.imports.engines.local import Engine
from deltasql.imports.load.loader import GroundError, hear, read_again
from deltasql.imports.load.tables import Importing
from deltasql.imports.plan.import_plan import ImportPlan, PlanOptions, read_plan
from deltasql.imports.read.tasks import LogReader
from deltasql.imports.validate.differences import (
    FILE_COLUMNS,
    Check,
    FileDifference,
    FileKey,
    FileMap,
    FileWords,
    Validation,
    compare_files,
    files_of,
    files_of_adds,
    sizes_only,
)
from deltasql.imports.validate.file_history import (
    Intervals,
    read_intervals,
    stream_intervals,
    version_digests,
)
from deltasql.imports.validate.log_summary import (
    LogSummary,
    Rules,
    checkpoint_adds,
    compare_with_book,
    hear_checkpoint,
)
from deltasql.log.checkpoint_reader import checkpoint_parts, read_files
from deltasql.metastore.registry import SqlCatalog
from deltasql.metastore.table_row import TableRow, TableState
from deltasql.protocol.actions import Metadata, Protocol, path_key
from deltasql.protocol.codec import decode_parts, to_json_object
from deltasql.runtime.connection import Connection
from deltasql.storage.port import ObjectStore

_MOST_BORDERS = 1_000
_MOST_COMMITS = 10

_IMPORTED = (TableState.IMPORTING, TableState.READ_ONLY)


def _words(action: Metadata | Protocol | None) -> dict[str, Any] | None:
    """What an action says; an unknown field that is null says nothing, and SQL leaves it out."""
    return None if action is None else to_json_object(action)


@dataclass(slots=True)
class Validator:
    """Compares one imported table with its source."""

    metastore: SqlCatalog
    row: TableRow
    store: ObjectStore
    plan: ImportPlan
    _named: tuple[tuple[FileDifference, ...], int] = field(default=((), 0))

    def run(self, witness: LogSummary, *, since: int) -> Validation:
        """Compare versions from `since` to the table's newest one; names files where they differ.

        Raises:
            SourceChangedError: the source cannot be read any more.
        """
        head = self.row.current_version
        since = max(since, self.row.oldest_version)
        told = witness.events().intervals().within(since, head)
        ours = self._intervals(since, head)
        checks = [
            *self._commits(witness, since, head),
            *self._rules(head, witness.rules),
            *self._oldest(witness, since),
            *self._files(witness, told, ours, head),
        ]
        heard = hear_checkpoint(self.plan, self.store, since=since, head=head)
        newest = heard.checkpoint
        if newest is not None:
            snapshot = self.metastore.snapshot(self.row.table_id, version=newest.version)
            files = ours.live(newest.version)
            checks += compare_with_book(heard, snapshot, files)
            if not checks[-1].is_equal and not self._named[0]:
                adds = checkpoint_adds(self.store, newest)
                self._name(newest.version, files_of(adds), sizes_only)
        with_whom = ("the commits", *([newest.key] if newest else []))
        return Validation(head, tuple(checks), *self._named, with_whom, heard.unreadable)

    def _intervals(self, since: int, head: int) -> Intervals:
        database = self.metastore.database
        rows = stream_intervals(database, self.row.table_id, since, head)
        return read_intervals(rows).within(since, head)

    def _commits(self, witness: LogSummary, since: int, head: int) -> Iterator[Check]:
        first = since + 1 if witness.began_with_book else since
        found = version_digests(self.metastore.database, self.row.table_id, first, head)
        told = witness.digests(first)
        yield Check("versions", head, told.num_rows, found.num_rows)
        other: list[int] = []
        if not told.equals(found):
            mine = {one["version"]: one["digest"] for one in found.to_pylist()}
            heard = {one["version"]: one["digest"] for one in told.to_pylist()}
            other = sorted(v for v in mine.keys() | heard.keys() if mine.get(v) != heard.get(v))
        yield Check("commits of other bytes", head, [], other[:_MOST_COMMITS])

    def _rules(self, version: int, expected: Rules) -> Iterator[Check]:
        snapshot = self.metastore.snapshot(self.row.table_id, version=version)
        wanted, found = expected.metadata, snapshot.metadata
        yield Check("protocol", version, _words(expected.protocol), _words(snapshot.protocol))
        yield Check("schema", version, wanted and wanted.schema_string, found.schema_string)
        yield Check("metadata", version, _words(wanted), _words(found))
        txns = {txn.app_id: txn.version for txn in snapshot.txns()}
        yield Check("txns", version, expected.txns, txns)
        domains = {one.domain: one.configuration for one in snapshot.domains()}
        yield Check("domains", version, expected.domains, domains)

    def _oldest(self, witness: LogSummary, since: int) -> Iterator[Check]:
        """Compare what the oldest version has from versions that SQL does not have."""
        oldest = self.row.oldest_version
        if self.plan.first < oldest == since == witness.oldest:
            yield from self._rules(oldest, witness.rules_at_oldest)

    def _files(
        self, witness: LogSummary, told: Intervals, ours: Intervals, head: int
    ) -> Iterator[Check]:
        at_head = Check("files", head, told.live(head), ours.live(head))
        always = Check("files of all versions", head, told.whole(), ours.whole())
        yield at_head
        yield always
        # statistics of a checkpoint need not be spelled as the commit spelled them
        if witness.began_with_book or self.plan.first == self.row.first_version:
            told_words, our_words = told.live_contents(), ours.live_contents()
            words = Check("what is said of the files", head, told_words, our_words)
            yield words
            if not words.is_equal:
                self._name(head, self._of_log(head))
        elif not at_head.is_equal:
            self._name(head, self._of_log(head))
        if not always.is_equal and not self._named[0]:
            for version in told.borders_that_differ(ours)[:_MOST_BORDERS]:
                if told.live(version) != ours.live(version):
                    self._name(version, self._of_log(version))
                    break

    def _name(
        self, version: int, expected: FileMap, seen: Callable[[FileMap], FileMap] = dict
    ) -> None:
        """Find out which files differ at a version."""
        snapshot = self.metastore.snapshot(self.row.table_id, version=version)
        found = files_of(snapshot.stream_files(FILE_COLUMNS))
        self._named = compare_files(version, seen(expected), seen(found))

    def _of_log(self, version: int) -> FileMap:
        """Return the files of a version by a plain replay of the log."""
        found: dict[FileKey, FileWords] = {}
        if self.plan.base is not None:
            for part in checkpoint_parts(self.store, self.plan.base_parts):
                found |= files_of(batch.adds for batch in read_files(self.store, part))
        start = 0 if self.plan.base is None else self.plan.first + 1
        for file in self.plan.commits.between(start, version):
            parts = decode_parts(
                self.store.get(file.key),
                version=file.version,
                lenient=self.plan.options.lenient,
                schemaless=True,
            )
            for remove in parts.removes:
                found.pop(FileKey(path_key(remove.path), remove.dv_id), None)
            found |= files_of_adds(parts.adds)
        return found


class Verdict(enum.StrEnum):
    """What `import_metadata.validation` says."""

    EQUAL = "equal"
    DIFFERENT = "different"
    ACCEPTED = "accepted"
    SKIPPED = "skipped"


def verdict_of(row: TableRow) -> Verdict | None:
    """Return what the last comparison of a table said, if there was one."""
    found = row.properties.get("import_metadata", {}).get("validation")
    return None if found is None else Verdict(found)


def compare(
    connection: Connection, row: TableRow, plan: ImportPlan, witness: LogSummary, *, since: int
) -> Validation:
    """Compare a table from one version on with what a witness has heard."""
    return Validator(connection.metastore, row, connection.store_of(row), plan).run(
        witness, since=since
    )


def remember(connection: Connection, row: TableRow, verdict: Verdict) -> TableRow:
    """Write a verdict into the catalog."""
    notes = {"validation": str(verdict), "validated_version": row.current_version}
    return Importing.into(connection.metastore.database).note(row.table_id, notes)


def validate_table(
    connection: Connection, name: str, engine: Engine, reader: LogReader, *, accept: bool = False
) -> Validation:
    """Read the source of an imported table again, whole, and compare.

    Raises:
        BadArgumentError: the table is not an import any more; `mirror verify` is for it.
    """
    row = connection.metastore.table(name)
    if row.state not in _IMPORTED:
        raise BadArgumentError(
            f"Table {name} is {row.state}; only an imported table is compared with its source.",
            hint=f"Use `deltasql mirror verify {name}`.",
        )
    plan, witness = reread_source(connection.store_of(row), row, engine, reader)
    outcome = compare(connection, row, plan, witness, since=plan.first)
    judge(connection, row, outcome, accept=accept)
    return outcome


def reread_source(
    store: ObjectStore, row: TableRow, engine: Engine, reader: LogReader
) -> tuple[ImportPlan, LogSummary]:
    """Read what a table has of its source by now, from the log alone.

    Raises:
        MalformedActionError, LogGapError: the log cannot be read any more.
    """
    is_cut = row.oldest_version > row.first_version
    oldest = row.oldest_version if is_cut else None
    options = PlanOptions(row.current_version, lenient=True, from_version=oldest)
    plan = read_plan(store, options)
    while True:
        try:
            return plan, hear(read_again(engine, plan, store, reader), oldest or -1)
        except GroundError as error:
            plan = plan.without_base(error.message)


def _verdict(outcome: Validation, *, accept: bool) -> Verdict:
    if outcome.is_equal:
        return Verdict.EQUAL
    return Verdict.ACCEPTED if accept else Verdict.DIFFERENT


def judge(connection: Connection, row: TableRow, outcome: Validation, *, accept: bool) -> TableRow:
    """Write the outcome of a comparison into the catalog."""
    return remember(connection, row, _verdict(outcome, accept=accept))
