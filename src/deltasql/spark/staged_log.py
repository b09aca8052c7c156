"""A log of its own below a table's root, written from SQL: what Delta Spark works on.

Its first commit is the table's state at one version: protocol without our fence, metadata,
applications, domains, and all live files by absolute path. Delta Spark adds its commits to it.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from deltasql.catalog.snapshots import Snapshot
from deltasql.client.plans import live_adds
from deltasql.errors import LogGapError, UnsupportedFeatureError
from deltasql.protocol.actions import Action, CommitInfo, Metadata, Protocol
from deltasql.protocol.codec import decode_commit, serialize_actions
from deltasql.protocol.features import FENCE, is_fenced, with_features, without_fence
from deltasql.protocol.files import LOG_FOLDER, LogFile, LogFileKind, commit_key
from deltasql.protocol.identity import FileKey, file_key
from deltasql.spark.fold import StagedCommit, fold, refuse_lost_changes
from deltasql.spark.translate import StagedPlace, Translation
from deltasql.storage.location import parse_location

_ICT_VERSION = "delta.inCommitTimestampEnablementVersion"


@dataclass(frozen=True, slots=True)
class StagedLog:
    """The staged log of one table."""

    snapshot: Snapshot
    root: Path
    translation: Translation
    live: frozenset[FileKey]

    @property
    def path(self) -> str:
        """Where Delta Spark finds the staged table."""
        return str(self.root / self.translation.place.folder)

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
        payloads = [(v, (Path(self.path) / commit_key(v)).read_bytes()) for v in sorted(versions)]
        return [StagedCommit(tuple(decode_commit(raw, version=v))) for v, raw in payloads]

    def folded(self, commits: list[StagedCommit]) -> list[Action]:
        """Return the commits as the actions of one commit of the table itself.

        Raises:
            InvalidCommitError: they cannot be one commit.
        """
        name = self.snapshot.table.full_name
        refuse_lost_changes(name, self.snapshot.metadata, commits)
        actions = [
            self.translation.back(action, self.snapshot.version + 1)
            for action in fold(commits, self.live)
        ]
        found = [self._of_the_table(action) for action in actions]
        return [action for action in found if action is not None]

    def remove(self) -> None:
        """Forget the log; data files stay, for the commit that names them or for vacuum."""
        shutil.rmtree(Path(self.path) / LOG_FOLDER, ignore_errors=True)
        with suppress(OSError):  # files were written
            Path(self.path).rmdir()

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
    """Write the state of a snapshot as version 0 of a new log."""
    translation = Translation.of(live_adds(snapshot), place)
    adds = translation.staged_adds()
    # Delta Spark refuses to write to a log with in-commit timestamps that does not begin with one
    time = snapshot.timestamp if snapshot.definition.has_in_commit_timestamps else None
    actions: list[Action] = [
        CommitInfo(in_commit_timestamp=time, timestamp=snapshot.timestamp),
        without_fence(snapshot.protocol),
        snapshot.metadata,
        *snapshot.domains(),
        *snapshot.txns(),
        *adds,
    ]
    log = StagedLog(snapshot, root, translation, frozenset(file_key(add) for add in adds))
    folder = Path(log.path) / LOG_FOLDER
    folder.mkdir(parents=True)
    (Path(log.path) / commit_key(0)).write_bytes(serialize_actions(actions))
    return log


def _features(protocol: Protocol) -> tuple[object, ...]:
    return (
        protocol.min_reader_version,
        protocol.min_writer_version,
        frozenset(protocol.reader_features or ()),
        frozenset(protocol.writer_features or ()),
    )
