"""A log of its own below a table's root, written from SQL: what Delta Spark works on.

Its version 0 is the table's state at one version: protocol without our fence, metadata,
applications, domains, and all live files by absolute path; few files as a commit, many as a
checkpoint. Delta Spark adds its commits to it. What it did is translated back by asking SQL for
the files that it names, and for no others.

The state of a big table as the checkpoint that a staged log begins with, streamed from SQL. The
files come as columns and stay columns: their paths are made absolute, their deletion vectors too.
Statistics are written as the JSON that they are, which is what Delta Spark carries on.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.data.read_ahead import in_order
from deltasql.errors import LogGapError, UnsupportedFeatureError
from deltasql.log.checkpoint_writer import ROW_GROUP, gather, write_groups
from deltasql.metastore.references import is_absolute
from deltasql.metastore.snapshot.file_list import ACTION_COLUMNS, adds_of
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.protocol.actions import Action, Add, CommitInfo, DeletionVector, Metadata, Protocol
from deltasql.protocol.checkpoint.layout import CheckpointShape
from deltasql.protocol.codec import decode_commit, serialize_actions
from deltasql.protocol.features import FENCE, is_fenced, with_features, without_fence
from deltasql.protocol.log_names import (
    LAST_CHECKPOINT,
    LOG_FOLDER,
    LastCheckpoint,
    LogFile,
    LogFileKind,
    checkpoint_path,
    commit_key,
    encode_hint,
)
from deltasql.spark.transactions.path_translation import (
    StagedCommit,
    StagedPlace,
    Translation,
    Wrong,
    fold,
    keys_of,
    misnumbered,
    named_twice_error,
    refuse_copied,
    refuse_lost_changes,
    renumber,
    staged_path,
    staged_vector,
)
from deltasql.storage.location import parse_location

_PLAIN = {
    "delta.checkpoint.writeStatsAsJson": "true",
    "delta.checkpoint.writeStatsAsStruct": "false",
}

# absolute, or with letters that Hadoop spells otherwise: all other paths are below the root
_ODD = r"^/|:/|%[89A-F]"

# More files than these are a checkpoint: as a commit they would all be in memory, here and there.
_MOST_IN_A_COMMIT = 1_000
_ICT_VERSION = "delta.inCommitTimestampEnablementVersion"


def write_staged_checkpoint(
    folder: Path, snapshot: Snapshot, files: Iterable[pa.RecordBatch], place: StagedPlace
) -> None:
    """Write the checkpoint of version 0 below a staged folder, and the hint that names it.

    Raises:
        UnsupportedFeatureError: a file is not on local files, or is named twice.
    """
    shape = CheckpointShape(_plain(snapshot.metadata), snapshot.protocol)
    path, staged = folder / checkpoint_path(0), _StagedFiles(snapshot, place)
    groups = gather(_rows(shape, snapshot, map(staged.of, files)), shape.schema, ROW_GROUP)
    rows, adds = write_groups(path, shape.schema, groups)
    hint = LastCheckpoint(0, rows, path.stat().st_size, adds)
    (folder / LAST_CHECKPOINT).write_bytes(encode_hint(hint))


def _rows(
    shape: CheckpointShape, snapshot: Snapshot, files: Iterable[pa.RecordBatch]
) -> Iterator[pa.Table]:
    protocol = without_fence(snapshot.protocol)
    yield shape.head(protocol, snapshot.metadata, snapshot.txns(), snapshot.domains())
    for batch in files:
        yield shape.adds(batch)


@dataclass(frozen=True, slots=True)
class _StagedFiles:
    """Files as the staged log names them."""

    snapshot: Snapshot
    place: StagedPlace

    def of(self, files: pa.RecordBatch) -> pa.RecordBatch:
        """Return the files of one batch."""
        paths, vectors = files.column("path"), files.column("deletion_vector")
        named = {"path": self._paths(paths), "deletion_vector": _vectors(vectors, self.place)}
        columns = [named.get(name, files.column(name)) for name in files.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=files.schema)

    def _paths(self, paths: pa.Array) -> pa.Array:
        is_odd = pc.match_substring_regex(paths, _ODD)
        plain = pc.binary_join_element_wise(f"{self.place.root}/", paths, "")
        if not pc.any(is_odd).as_py():
            return plain
        odd = paths.filter(is_odd).to_pylist()
        found = [staged_path(path, self.place) for path in odd]
        self._refuse_twins(dict(zip(odd, found, strict=True)))
        return pc.replace_with_mask(plain, is_odd, pa.array(found, pa.string()))

    def _refuse_twins(self, found: Mapping[str, str]) -> None:
        """Two paths of one file would be one in the staged log."""
        keys = {key for path in found.values() for key in keys_of(path, self.place)}
        others = self.snapshot.files_named(sorted(keys), ["path"]).column(0).to_pylist()
        first: dict[str, str] = {}
        for path in {*found, *others}:
            twin = first.setdefault(staged_path(path, self.place), path)
            if twin != path:
                raise named_twice_error(self.place, twin, path)


def _vectors(texts: pa.Array, place: StagedPlace) -> pa.Array:
    if texts.null_count == len(texts):
        return texts
    decoder = msgspec.json.Decoder(DeletionVector)
    found = [
        None if text is None else staged_vector(decoder.decode(text), place)
        for text in texts.to_pylist()
    ]
    return pa.array(
        [None if one is None else msgspec.json.encode(one).decode() for one in found], pa.string()
    )


def _plain(metadata: Metadata) -> Metadata:
    return msgspec.structs.replace(metadata, configuration={**metadata.configuration, **_PLAIN})


@dataclass(frozen=True, slots=True)
class StagedLog:
    """The staged log of one table."""

    snapshot: Snapshot
    root: Path
    place: StagedPlace

    @property
    def path(self) -> str:
        """Where Delta Spark finds the staged table."""
        return str(self.root / self.place.folder)

    def commits(self) -> list[StagedCommit]:
        """Return what was committed to the staged log, in order.

        Raises:
            LogGapError: Delta Spark has cleaned commits of the transaction away.
        """
        folder = Path(self.path) / LOG_FOLDER
        found = [LogFile.parse(file.name) for file in folder.iterdir()]
        versions = [
            file.version
            for file in found
            if file is not None and file.kind is LogFileKind.COMMIT and file.version > 0
        ]
        if len(versions) != max(versions, default=0):
            raise LogGapError(
                f"The staged log of {self.snapshot.table.full_name} has lost commits.",
                hint="Let delta.logRetentionDuration be longer than the transaction.",
                table=self.snapshot.table.full_name,
            )
        return [self._commit(version) for version in sorted(versions)]

    def commits_after(self, version: int) -> Iterator[StagedCommit]:
        """Yield the commits that came after one, for those who have seen it."""
        while (Path(self.path) / commit_key(version + 1)).exists():
            version += 1
            yield self._commit(version)

    def _commit(self, version: int) -> StagedCommit:
        raw = (Path(self.path) / commit_key(version)).read_bytes()
        return StagedCommit(tuple(decode_commit(raw, version=version)), version)

    def folded(self, commits: list[StagedCommit]) -> list[Action]:
        """Return the commits as the actions of one commit of the table itself.

        Raises:
            InvalidCommitError: they cannot be one commit.
        """
        name = self.snapshot.table.full_name
        refuse_lost_changes(name, self.snapshot.metadata, commits)
        translation = Translation.of(self._named(commits), self.place)
        refuse_copied(name, commits, self._misnumbered(commits, translation))
        actions = [
            translation.back(action, self._next_version)
            for action in fold(commits, translation.live)
        ]
        found = [self._of_the_table(action) for action in actions]
        return [action for action in found if action is not None]

    def settle_versions(self, commits: list[StagedCommit]) -> bool:
        """Give rows that statements wrote the version that the commit will have.

        Returns whether the log was changed, so that Delta Spark must read it again.
        """
        if not any(commit.tracks_rows for commit in commits):
            return False
        translation = Translation.of(self._named(commits), self.place)
        return renumber(Path(self.path), commits, self._misnumbered(commits, translation))

    @property
    def _next_version(self) -> int:
        return self.snapshot.version + 1

    def _misnumbered(self, commits: list[StagedCommit], translation: Translation) -> Wrong:
        return misnumbered(commits, translation.originals, self._next_version)

    def remove(self) -> None:
        """Forget the log; data files stay, for the commit that names them or for vacuum."""
        shutil.rmtree(Path(self.path) / LOG_FOLDER, ignore_errors=True)
        with suppress(OSError):  # files were written
            Path(self.path).rmdir()

    def _named(self, commits: list[StagedCommit]) -> Iterator[Add]:
        """Yield the files of the table that the commits name."""
        paths = {path for commit in commits for path in commit.paths if is_absolute(path)}
        keys = {key for path in paths for key in keys_of(path, self.place)}
        return adds_of(self.snapshot.files_named(sorted(keys), ACTION_COLUMNS).to_batches())

    def _of_the_table(self, action: Action) -> Action | None:
        """Put the fence back; leave out what is as it was."""
        if isinstance(action, Protocol):
            before = self.snapshot.protocol
            after = with_features(action, {FENCE}) if is_fenced(before) else action
            return None if _features(after) == _features(before) else after
        if isinstance(action, Metadata):
            self._refuse_new_times(action)
            return None if action == self.snapshot.metadata else action
        return action

    def _refuse_new_times(self, metadata: Metadata) -> None:
        """The version that in-commit timestamps begin with is known only under the lock."""
        before, after = self.snapshot.metadata.configuration, metadata.configuration
        if before.get(_ICT_VERSION) != after.get(_ICT_VERSION):
            raise UnsupportedFeatureError(
                f"A transaction by Spark cannot switch on in-commit timestamps of table "
                f"{self.snapshot.table.full_name}.",
                hint="Set delta.enableInCommitTimestamps with deltasql itself.",
            )


def local_root(snapshot: Snapshot) -> Path:
    """Return the directory of a table on local files.

    Raises:
        UnsupportedFeatureError: it lies elsewhere.
    """
    location = parse_location(snapshot.table.location)
    if location.scheme != "file":
        raise UnsupportedFeatureError(
            f"Table {snapshot.table.full_name} is not on local files: transactions by Spark "
            "cannot work on it yet.",
            hint="Use deltasql's own transactions (catalog.transaction()) for this table.",
            table=snapshot.table.full_name,
        )
    return Path(location.path)


def write_staged_log(snapshot: Snapshot, root: Path, place: StagedPlace) -> StagedLog:
    """Write the state of a snapshot as version 0 of a new log.

    Raises:
        UnsupportedFeatureError: a file is not on local files, or is named twice.
    """
    log = StagedLog(snapshot, root, place)
    try:
        write_state(Path(log.path), snapshot, snapshot.stream_files(ACTION_COLUMNS), place)
    except BaseException:
        log.remove()
        raise
    return log


def write_state(
    folder: Path, snapshot: Snapshot, files: Iterator[pa.RecordBatch], place: StagedPlace
) -> None:
    """Write a log below a folder whose version 0 is a snapshot with these files.

    Raises:
        UnsupportedFeatureError: a file is not on local files, or is named twice.
    """
    state: list[Action] = []
    (folder / LOG_FOLDER).mkdir(parents=True)
    first = _up_to(_MOST_IN_A_COMMIT, files)
    if sum(batch.num_rows for batch in first) > _MOST_IN_A_COMMIT:
        # SQL is read ahead by a thread while what came before is written
        with closing(in_order([lambda: chain(first, files)], threads=1)) as batches:
            write_staged_checkpoint(folder, snapshot, batches, place)
    else:
        state = _state(snapshot, Translation.of(adds_of(first), place))
    (folder / commit_key(0)).write_bytes(serialize_actions([_beginning(snapshot), *state]))


def _up_to(rows: int, batches: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Take batches until they have more rows than these, or there are no more."""
    found: list[pa.RecordBatch] = []
    while sum(batch.num_rows for batch in found) <= rows:
        batch = next(batches, None)
        if batch is None:
            break
        found.append(batch)
    return found


def _beginning(snapshot: Snapshot) -> CommitInfo:
    """Delta Spark refuses to write to a log with in-commit timestamps that begins with none."""
    time = snapshot.timestamp if snapshot.definition.has_in_commit_timestamps else None
    return CommitInfo(in_commit_timestamp=time, timestamp=snapshot.timestamp)


def _state(snapshot: Snapshot, files: Translation) -> list[Action]:
    return [
        without_fence(snapshot.protocol),
        snapshot.metadata,
        *snapshot.domains(),
        *snapshot.txns(),
        *files.staged_adds(),
    ]


def _features(protocol: Protocol) -> tuple[object, ...]:
    return (
        protocol.min_reader_version,
        protocol.min_writer_version,
        frozenset(protocol.reader_features or ()),
        frozenset(protocol.writer_features or ()),
    )
