"""Is what SQL has equal to what the log says? Asked after every import, by digests first.

The witness saw the log's own words; the newest checkpoint of the source, where there is one, was
written by somebody else. Both are compared with what SQL has: the bytes of every commit, the state
at the newest version, and from when to when every file was live, which is the files of all
versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from deltasql.catalog.catalog import SqlCatalog
from deltasql.catalog.file_history import stream_intervals, version_digests
from deltasql.catalog.rows import TableRow
from deltasql.importer.plan import ImportPlan
from deltasql.importer.second_witness import (
    checkpoint_adds,
    compare_with_book,
    hear_checkpoint,
)
from deltasql.importer.witness import Rules, Witness
from deltasql.log.checkpoint_rows import checkpoint_parts, read_files
from deltasql.parity.differences import Check, FileDifference, Validation, compare_files
from deltasql.parity.file_maps import (
    FILE_COLUMNS,
    FileKey,
    FileMap,
    FileWords,
    files_of,
    files_of_adds,
    sizes_only,
)
from deltasql.parity.intervals import Intervals, read_intervals
from deltasql.protocol.actions import Metadata, Protocol
from deltasql.protocol.codec import to_json_object
from deltasql.protocol.commit_parts import decode_parts
from deltasql.protocol.identity import path_key
from deltasql.storage.port import ObjectStore

_MOST_BORDERS = 1_000
_MOST_COMMITS = 10


def _words(action: Metadata | Protocol | None) -> dict[str, Any] | None:
    """What an action says; an unknown field that is null says nothing, and SQL leaves it out."""
    return None if action is None else to_json_object(action)


@dataclass(slots=True)
class Validator:
    """Compares one imported table with its source."""

    book: SqlCatalog
    row: TableRow
    store: ObjectStore
    plan: ImportPlan
    _named: tuple[tuple[FileDifference, ...], int] = field(default=((), 0))

    def run(self, witness: Witness, *, since: int) -> Validation:
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
            snapshot = self.book.snapshot(self.row.table_id, version=newest.version)
            files = ours.live(newest.version)
            checks += compare_with_book(heard, snapshot, files)
            if not checks[-1].is_equal and not self._named[0]:
                adds = checkpoint_adds(self.store, newest)
                self._name(newest.version, files_of(adds), sizes_only)
        with_whom = ("the commits", *([newest.key] if newest else []))
        return Validation(head, tuple(checks), *self._named, with_whom, heard.unreadable)

    def _intervals(self, since: int, head: int) -> Intervals:
        database = self.book.database
        rows = stream_intervals(database, self.row.table_id, since, head)
        return read_intervals(rows).within(since, head)

    def _commits(self, witness: Witness, since: int, head: int) -> Iterator[Check]:
        first = since + 1 if witness.began_with_book else since
        found = version_digests(self.book.database, self.row.table_id, first, head)
        told = witness.digests(first)
        yield Check("versions", head, told.num_rows, found.num_rows)
        other: list[int] = []
        if not told.equals(found):
            mine = {one["version"]: one["digest"] for one in found.to_pylist()}
            heard = {one["version"]: one["digest"] for one in told.to_pylist()}
            other = sorted(v for v in mine.keys() | heard.keys() if mine.get(v) != heard.get(v))
        yield Check("commits of other bytes", head, [], other[:_MOST_COMMITS])

    def _rules(self, version: int, expected: Rules) -> Iterator[Check]:
        snapshot = self.book.snapshot(self.row.table_id, version=version)
        wanted, found = expected.metadata, snapshot.metadata
        yield Check("protocol", version, _words(expected.protocol), _words(snapshot.protocol))
        yield Check("schema", version, wanted and wanted.schema_string, found.schema_string)
        yield Check("metadata", version, _words(wanted), _words(found))
        txns = {txn.app_id: txn.version for txn in snapshot.txns()}
        yield Check("txns", version, expected.txns, txns)
        domains = {one.domain: one.configuration for one in snapshot.domains()}
        yield Check("domains", version, expected.domains, domains)

    def _oldest(self, witness: Witness, since: int) -> Iterator[Check]:
        """Compare what the oldest version has from versions that SQL does not have."""
        oldest = self.row.oldest_version
        if self.plan.first < oldest == since == witness.oldest:
            yield from self._rules(oldest, witness.rules_at_oldest)

    def _files(
        self, witness: Witness, told: Intervals, ours: Intervals, head: int
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
        snapshot = self.book.snapshot(self.row.table_id, version=version)
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
