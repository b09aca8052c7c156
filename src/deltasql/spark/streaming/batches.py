"""The plan of a stream: where it begins, how far a batch goes, and which files are in it.

Everything is read from SQL, the commits of one call in one state of the catalog. What a range of
offsets means never changes: a version's files keep their order, and those of the first snapshot
are in the order of their times and paths, as with Delta.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from deltasql.api.table import Table
from deltasql.database.port import Database
from deltasql.errors import StreamError, TableNotFoundError, VersionNotFoundError
from deltasql.metastore.snapshot.commit_feed import CommitFeed, CommitRef, open_feed, read_head
from deltasql.metastore.table_row import TableRow, TableState
from deltasql.spark.source.scan_tasks import CHANGED_FILES, changed_files
from deltasql.spark.streaming.commit_rules import CommitFilter, starting_version
from deltasql.spark.streaming.stream_options import FollowOptions

_FORM = 1
_FIELDS = {
    "tableId": str,
    "epoch": int,
    "version": int,
    "index": int,
    "isInitialSnapshot": bool,
    "isChangeFeed": bool,
    "commitId": str,
}

_COLUMNS = ("path", "size", "partition_values", "deletion_vector", "modification_time")

_WITH = {True: "with", False: "without"}


@dataclass(slots=True)
class BatchLimit:
    """What is left of a batch's limits; None is no limit."""

    files: int | None = None
    bytes: int | None = None
    is_begun: bool = False

    @property
    def is_full(self) -> bool:
        """Tell whether nothing more is taken."""
        left = [one for one in (self.files, self.bytes) if one is not None]
        return any(one <= 0 for one in left)

    def take(self, sizes: Sequence[int]) -> int:
        """Take files one after the other and return how many were taken.

        As with Delta, a file is taken as long as anything is left: the last one may go over.
        """
        for count, size in enumerate(sizes):
            if self.is_full:
                return count
            self._count([size])
        return len(sizes)

    def take_all(self, sizes: Sequence[int]) -> bool:
        """Take files that belong together if all fit, or if they are the first of the batch."""
        fits = (self.files is None or len(sizes) <= self.files) and (
            self.bytes is None or sum(sizes) <= self.bytes
        )
        if self.is_begun and not fits:
            return False
        self._count(sizes)
        return True

    def _count(self, sizes: Sequence[int]) -> None:
        self.is_begun = True
        if self.files is not None:
            self.files -= len(sizes)
        if self.bytes is not None:
            self.bytes -= sum(sizes)


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The next file to read: the `index`th of a version, or of all that the version holds.

    `commit_id` is the token of the newest commit of which something was read. If another commit
    has its number by now, the numbers were given anew and the offset means nothing any more.
    """

    table_id: str
    epoch: int
    version: int
    index: int
    is_snapshot: bool
    is_feed: bool = False
    commit_id: str = ""

    @property
    def touched(self) -> int:
        """The newest version of which something was read."""
        return self.version if self.is_snapshot or self.index else self.version - 1

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values, always in the same order: Spark compares their text."""
        return {
            "form": _FORM,
            "tableId": self.table_id,
            "epoch": self.epoch,
            "version": self.version,
            "index": self.index,
            "isInitialSnapshot": self.is_snapshot,
            "isChangeFeed": self.is_feed,
            "commitId": self.commit_id,
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> StreamOffset:
        """Read an offset of a checkpoint.

        Raises:
            StreamError: it is not one of ours.
        """
        values = [given.get(name) for name in _FIELDS]
        fits = all(type(one) is kind for one, kind in zip(values, _FIELDS.values(), strict=True))
        if given.get("form") != _FORM or not fits:
            raise StreamError('The offset in the checkpoint is not one of format("deltasql").')
        return cls(*values)  # type: ignore[arg-type] # checked above


def snapshot_files(table: Table, version: int) -> pa.Table:
    """Return the live files of a version as rows that were inserted by it.

    Raises:
        VersionNotFoundError: the catalog has forgotten the version.
        VacuumedError: vacuum has deleted files of it.
    """
    snapshot = table.snapshot(version)
    snapshot.require_files()
    files = snapshot.files(_COLUMNS).sort_by(
        [("modification_time", "ascending"), ("path", "ascending")]
    )
    row = table.refresh()
    if version < row.oldest_version:  # forgotten while the files were listed
        raise VersionNotFoundError(
            f"Table {row.full_name} has forgotten version {version}.",
            table=row.full_name,
            version=version,
        )
    count = files.num_rows
    constants = {
        "among": pa.nulls(count, pa.string()),
        "change": pa.repeat(pa.scalar("insert"), count),
        "version": pa.repeat(pa.scalar(version, pa.int64()), count),
        "timestamp": pa.repeat(pa.scalar(snapshot.timestamp, pa.int64()), count),
    }
    arrays = [
        constants[name] if name in constants else files.column(name) for name in CHANGED_FILES.names
    ]
    return pa.Table.from_arrays(arrays, schema=CHANGED_FILES)


@dataclass(frozen=True, slots=True)
class Planned:
    """The files of one commit; with `together`, sizes of such that are not torn apart."""

    files: pa.Table
    together: list[int] | None

    def take(self, index: int, room: BatchLimit) -> int:
        """Take files from an index on and return how many were taken."""
        if self.together is None:
            return room.take(self.files["size"].slice(index).to_pylist())
        return self.files.num_rows - index if room.take_all(self.together) else 0


@dataclass(slots=True)
class StreamPlan:
    """One stream of one table; it remembers the files of the snapshot that it began with."""

    database: Database
    table: Table
    follower: CommitFilter
    last: int | None = None
    _listed: tuple[int, pa.Table] | None = None
    # what there was when nothing was new: Spark asks again every few milliseconds
    _rest: tuple[StreamOffset, object] | None = None
    _newest: tuple[StreamOffset, object] | None = None
    _last: tuple[CommitRef, Planned] | None = None
    _is_checked: bool = False

    @property
    def options(self) -> FollowOptions:
        """What the stream was told."""
        return self.follower.options

    def stop_at_head(self) -> None:
        """See nothing from now on that is committed later."""
        with self._feed() as feed:
            self.last = feed.row.current_version
        self._rest = self._newest = None

    def initial(self, newest: int | None = None) -> StreamOffset:
        """Return where a new stream begins; `newest` is the version it takes for the newest.

        Raises:
            VersionNotFoundError: there is no version to begin with.
        """
        with self._feed() as feed:
            head = self._head(feed.row) if newest is None else newest
            if self.options.is_latest:
                return self._offset(feed, head + 1)
            if self.options.start is None:
                return self._offset(feed, head, is_snapshot=True)
            return self._offset(feed, starting_version(self.table, feed.row, self.options.start))

    def newest(self) -> StreamOffset:
        """Return where the stream has read everything."""
        seen = read_head(self.database, self.table.table_id)
        if self._newest is None or self._newest[1] != seen:
            with self._feed() as feed:
                self._newest = (self._offset(feed, self._head(feed.row) + 1), seen)
        return self._newest[0]

    def latest(self, start: StreamOffset, room: BatchLimit) -> StreamOffset:
        """Return how far the batch goes that begins at an offset.

        Raises:
            StreamError, SchemaError, VersionNotFoundError: the stream cannot go on.
        """
        seen = read_head(self.database, self.table.table_id)
        if self._rest == (start, seen):
            return start
        found = self._latest(start, room)
        if found == start:
            self._rest = (start, seen)
        return found

    def _latest(self, start: StreamOffset, room: BatchLimit) -> StreamOffset:
        with self._feed() as feed:
            self._verify(feed, start)
            version, index = start.version, start.index
            if start.is_snapshot:
                sizes = self._snapshot(start.version)["size"].slice(index).to_pylist()
                taken = room.take(sizes)
                if taken < len(sizes):
                    return self._offset(feed, version, index + taken, is_snapshot=True)
                version, index = version + 1, 0
            return self._offset(feed, *self._advance(feed, version, index, room))

    def files(self, start: StreamOffset, end: StreamOffset) -> pa.Table:
        """Return the files from one offset to another, the same ones whenever it is asked.

        Raises:
            StreamError, VersionNotFoundError, VacuumedError: they cannot be told any more.
        """
        with self._feed() as feed:
            self._verify(feed, start)
            self._verify(feed, end)
            parts: list[pa.Table] = []
            version, index = start.version, start.index
            if start.is_snapshot:
                listed = self._snapshot(version)
                upto = end.index if end.is_snapshot else listed.num_rows
                parts.append(listed.slice(index, _span(index, upto, listed.num_rows)))
                version, index = version + 1, 0
            if not end.is_snapshot:
                version, index = self._kept(feed.row, version, index)
                new = [CHANGED_FILES.empty_table(), *self._between(feed, (version, index), end)]
                parts.append(pa.concat_tables(new))
                feed.require_files(parts[-1]["path"].to_pylist(), version, end.touched)
        return pa.concat_tables(parts)

    def _between(
        self, feed: CommitFeed, start: tuple[int, int], end: StreamOffset
    ) -> Iterator[pa.Table]:
        version, index = start
        for ref in feed.commits(version, end.touched):
            files = self._planned(feed, ref).files
            upto = end.index if ref.version == end.version else files.num_rows
            first = index if ref.version == version else 0
            yield files.slice(first, _span(first, upto, files.num_rows))

    def _advance(
        self, feed: CommitFeed, version: int, index: int, room: BatchLimit
    ) -> tuple[int, int]:
        """Return the place where the room ends, or the one behind the newest version."""
        version, index = self._kept(feed.row, version, index)
        head = self._head(feed.row)
        for ref in feed.commits(version, head):
            if room.is_full:
                return ref.version, index
            planned = self._planned(feed, ref)
            left = planned.files.num_rows - index
            taken = planned.take(index, room)
            if taken < left:
                return ref.version, index + taken
            index = 0
        return max(version, head + 1), index

    def _planned(self, feed: CommitFeed, ref: CommitRef) -> Planned:
        """Return what is read of a commit; the last one is kept, for it may be a big one."""
        if self._last is None or self._last[0] != ref:
            commit = feed.read(ref)
            files = changed_files(commit, self.follower.files(commit))
            together = commit.inseparable() if self.options.is_feed else None
            self._last = (ref, Planned(files, together))
        return self._last[1]

    def _kept(self, row: TableRow, version: int, index: int) -> tuple[int, int]:
        """Return the place where to read on; refuse it if versions are gone, or pass over them."""
        if version >= row.oldest_version:
            return version, index
        if not self.options.fail_on_data_loss:
            return row.oldest_version, 0
        raise VersionNotFoundError(
            f"Table {row.full_name} has forgotten versions {version} to {row.oldest_version - 1}, "
            "which the stream has not read.",
            hint="Set failOnDataLoss to false to go on without them.",
            table=row.full_name,
            version=version,
        )

    def _snapshot(self, version: int) -> pa.Table:
        if self._listed is None or self._listed[0] != version:
            self._listed = (version, snapshot_files(self.table, version))
        # vacuum and the retention of versions may have come since
        self.table.snapshot(version).require_files()
        return self._listed[1]

    def _offset(
        self, feed: CommitFeed, version: int, index: int = 0, *, is_snapshot: bool = False
    ) -> StreamOffset:
        bare = StreamOffset(
            feed.row.table_id, feed.epoch, version, index, is_snapshot, self.options.is_feed
        )
        return replace(bare, commit_id=feed.commit_id(bare.touched) or "")

    def _head(self, row: TableRow) -> int:
        return row.current_version if self.last is None else min(self.last, row.current_version)

    def _verify(self, feed: CommitFeed, offset: StreamOffset) -> None:
        """Refuse an offset that means something else by now."""
        name = feed.row.full_name
        if offset.table_id != feed.row.table_id:
            raise StreamError(f"The checkpoint is of another table than {name}.", table=name)
        if offset.is_feed != self.options.is_feed:
            raise StreamError(
                f"The checkpoint is of a stream of {name} {_WITH[offset.is_feed]} the change feed.",
                table=name,
            )
        if offset.epoch != feed.epoch:
            raise StreamError(
                f"The checkpoint is of epoch {offset.epoch} of the catalog, which is in epoch "
                f"{feed.epoch} now: it was restored, and may have other commits under the same "
                "numbers.",
                table=name,
            )
        if offset.touched > feed.row.current_version:
            raise StreamError(
                f"The checkpoint has read version {offset.touched} of {name}, which has only "
                f"{feed.row.current_version}.",
                table=name,
            )
        found = feed.commit_id(offset.touched) if offset.commit_id else None
        if found is not None and found != offset.commit_id:
            raise StreamError(
                f"Version {offset.touched} of {name} is not the commit that the stream has read: "
                "the database was restored or replaced.",
                table=name,
                version=offset.touched,
            )
        self._check_start(feed.row, offset)

    def _check_start(self, row: TableRow, offset: StreamOffset) -> None:
        """Check the rules that hold where the stream begins; later ones are seen on the way."""
        if self._is_checked:
            return
        version = min(max(offset.version, row.oldest_version), row.current_version)
        self.follower.check_metadata(self.table.snapshot(version).metadata, version)
        self._is_checked = True

    @contextmanager
    def _feed(self) -> Iterator[CommitFeed]:
        with open_feed(self.database, self.table.table_id) as feed:
            if feed.row.state is TableState.DELETED:
                raise TableNotFoundError(f"Table {feed.row.full_name} was dropped.")
            yield feed


def _span(first: int, upto: int, count: int) -> int:
    """Return how many files lie between two indexes."""
    if upto > count:
        raise StreamError(
            f"The checkpoint counts {upto} files where there are {count}.",
            hint="The options that say what is passed over must stay as they were.",
        )
    return max(0, upto - first)
