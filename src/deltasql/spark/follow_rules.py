"""What a commit gives to those who follow the table, and what stops them: Delta's own rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deltasql.catalog.rows import TableRow
from deltasql.client.table import Table
from deltasql.errors import (
    ChangeDataMissingError,
    CorruptDataError,
    SchemaError,
    StreamError,
    VersionNotFoundError,
)
from deltasql.protocol.actions import Metadata
from deltasql.protocol.features import require_readable
from deltasql.protocol.properties import read_bool
from deltasql.protocol.read_compatible import ReadSchema
from deltasql.protocol.row_changes import ChangedFile, FollowedCommit
from deltasql.spark.follow_options import FollowOptions, Moment

_FEED = "delta.enableChangeDataFeed"


@dataclass(frozen=True, slots=True)
class Follower:
    """Who follows which table: by columns settled at `version`, and under which options."""

    table: str
    read: ReadSchema
    version: int
    options: FollowOptions
    partition_values_at: Callable[[int], dict[str, dict[str, str | None]]]

    def files(self, commit: FollowedCommit) -> list[ChangedFile]:
        """Return the files to read of a commit.

        Raises:
            StreamError: rows were changed or deleted, and no option says what to do then.
            SchemaError: the rows cannot be read by the columns that were settled on.
            ChangeDataMissingError: the change feed was switched off.
            UnsupportedFeatureError: the table needs a reader feature that deltasql lacks.
        """
        if commit.protocol is not None:
            require_readable(commit.protocol, self.table)
        if commit.metadata is not None:
            self.check_metadata(commit.metadata, commit.version)
        if self.options.is_feed:
            return self._with_values(commit, commit.changed())
        return commit.appended() if self._takes(commit) else []

    def check_metadata(self, metadata: Metadata, version: int) -> None:
        """Refuse what cannot be read any more, or not as a feed."""
        if self.options.is_feed and not read_bool(metadata.configuration, _FEED):
            raise ChangeDataMissingError(
                f"The changes of version {version} of {self.table} were not recorded: {_FEED} was "
                "not set.",
                table=self.table,
                version=version,
            )
        why = self.read.misfit(ReadSchema.of(metadata))
        if why is None:
            return
        if version > self.version:
            raise SchemaError(
                f"The schema of {self.table} changed at version {version}: {why}.",
                hint="Restart the query: it goes on where it was, with the new schema.",
                table=self.table,
                version=version,
            )
        raise SchemaError(
            f"Version {version} of {self.table} cannot be read with the schema of version "
            f"{self.version}: {why}.",
            hint="Begin at a later version, with a new checkpoint.",
            table=self.table,
            version=version,
        )

    def _takes(self, commit: FollowedCommit) -> bool:
        """Tell whether the added files of a commit are read; refuse what no option allows."""
        if not commit.removes:
            return True
        options = self.options
        if options.skip_change_commits:
            return False
        if options.ignore_changes or (options.ignore_deletes and not commit.adds):
            return True
        path = commit.removes[0].path
        if commit.adds:
            raise StreamError(
                f"Version {commit.version} of {self.table} changed rows (for example of the file "
                f"{path}), which a stream cannot tell.",
                hint="Set skipChangeCommits to true to pass over such commits, or start a new "
                "query with a new checkpoint to have the changes.",
                table=self.table,
                version=commit.version,
            )
        raise StreamError(
            f"Version {commit.version} of {self.table} deleted rows (for example of the file "
            f"{path}), which a stream cannot tell.",
            hint="Set ignoreDeletes to true to pass over such commits, or start a new query with "
            "a new checkpoint.",
            table=self.table,
            version=commit.version,
        )

    def _with_values(self, commit: FollowedCommit, files: list[ChangedFile]) -> list[ChangedFile]:
        """Return the files with the partition values that old writers leave out of removes."""
        if not self.read.partition_columns or all(
            one.partition_values is not None for one in files
        ):
            return files
        known = self.partition_values_at(commit.version)
        return [self._told(one, known) for one in files]

    def _told(self, one: ChangedFile, known: dict[str, dict[str, str | None]]) -> ChangedFile:
        values = one.partition_values if one.partition_values is not None else known.get(one.path)
        if values is None:
            raise CorruptDataError(
                f"Nothing tells the partition of the removed file {one.path}.", path=one.path
            )
        return ChangedFile(one.path, one.size, values, one.deletion_vector, one.among, one.change)


def starting_version(table: Table, row: TableRow, start: Moment) -> int:
    """Return the version where to begin: at a time, the first one that is not before it.

    Raises:
        VersionNotFoundError: the table has no such version, or none so late.
    """
    version = (
        start.version if start.timestamp is None else _first_since(table, row, start.timestamp)
    )
    assert version is not None  # noqa: S101 (a moment is one or the other)
    if not row.oldest_version <= version <= row.current_version:
        told = f"version {version}" if start.timestamp is None else "version so late"
        raise VersionNotFoundError(
            f"Table {row.full_name} has no {told} to begin with; it has {row.oldest_version} to "
            f"{row.current_version}.",
            table=row.full_name,
            version=version,
        )
    return version


def _first_since(table: Table, row: TableRow, timestamp: int) -> int:
    try:
        found = table.snapshot(timestamp=timestamp)
    except VersionNotFoundError:  # the table is younger
        return row.oldest_version
    return found.version if found.timestamp == timestamp else found.version + 1
