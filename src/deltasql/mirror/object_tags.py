"""Tags of log objects that were compared before: what has not changed need not be read again.

An object whose size and entity tag are the remembered ones has not been written since its bytes
were equal to SQL's. A disk or a store may still change bytes and keep the tag, so every object is
read once in `ROTATION` runs in any case.

The size and entity tag that each object of a log had when its bytes were found to be SQL's. A
listing of the log then shows which objects are unchanged, without reading them. Each tag is
stored with a digest, so a tag of bytes that SQL no longer has is not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deltasql.crash import crash_point
from deltasql.database.port import Database, DbTransaction
from deltasql.storage.port import ObjectTag

ROTATION = 30


@dataclass(frozen=True, slots=True)
class CommitTag:
    """What is known of a commit's object; without a tag it is to be read the next time."""

    version: int
    digest: str
    tag: ObjectTag | None


@dataclass(frozen=True, slots=True)
class FileTag:
    """What is known of another file of the log; its size is recorded with its digest."""

    key: str
    digest: str
    tag: ObjectTag | None


class ObjectTags:
    """Remembers tags in `dl_mirror_status` and `dl_log_files`, and returns them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_commits(self, table_id: str, first: int, last: int) -> dict[int, ObjectTag]:
        """Return the tags of commits, where there are any, by version."""
        rows = self._database.fetch_all("commit_tags", table_id=table_id, first=first, last=last)
        return {version: ObjectTag(size, e_tag) for version, size, e_tag in rows}

    def remember(
        self, table_id: str, commits: Sequence[CommitTag] = (), files: Sequence[FileTag] = ()
    ) -> None:
        """Remember what was seen of objects, also that nothing is known of one any more."""
        # If a power cut undoes this, the objects are read again.
        with self._database.write(durable=False) as tx:
            remember_commits(tx, table_id, commits)
            if files:
                columns: dict[str, Sequence[Any]] = {
                    "key": [file.key for file in files],
                    "digest": [file.digest for file in files],
                    "e_tag": [file.tag.e_tag if file.tag else None for file in files],
                }
                tx.execute_many("remember_file_tags", columns, table_id=table_id)


def remember_commits(tx: DbTransaction, table_id: str, commits: Sequence[CommitTag]) -> None:
    """Remember the tags of commits inside a transaction."""
    if not commits:
        return
    columns: dict[str, Sequence[Any]] = {
        "version": [commit.version for commit in commits],
        "digest": [commit.digest for commit in commits],
        "size": [commit.tag.size if commit.tag else None for commit in commits],
        "e_tag": [commit.tag.e_tag if commit.tag else None for commit in commits],
    }
    tx.execute_many("remember_commit_tags", columns, table_id=table_id)


class FullCheck:
    """Every object is read, and nothing is remembered."""

    def commit_tags(self, first: int, last: int) -> dict[int, ObjectTag]:
        """Return what is remembered of the objects of commits, by version."""
        del first, last
        return {}

    def must_read(self, number: int, listed: ObjectTag | None, known: ObjectTag | None) -> bool:
        """Tell whether an object has to be read, by its listed and its remembered tag.

        By its `number` it has its turn: the version of a commit, anything stable for another file.
        """
        del number, listed, known
        return True

    def remember(self, commits: Sequence[CommitTag] = (), files: Sequence[FileTag] = ()) -> None:
        """Remember what was seen of the objects that were read."""


@dataclass(slots=True)
class TagCheck(FullCheck):
    """Objects are compared by their tags; what differs, is new or has its turn is read.

    `run` counts the comparisons of the table that came to an end: one that was cut short is made
    again with the same share of the objects.
    """

    tags: ObjectTags
    table_id: str
    run: int
    objects_read: int = 0
    objects_by_tag: int = 0

    def commit_tags(self, first: int, last: int) -> dict[int, ObjectTag]:
        """Return what is remembered of the objects of commits, by version."""
        return self.tags.of_commits(self.table_id, first, last)

    def must_read(self, number: int, listed: ObjectTag | None, known: ObjectTag | None) -> bool:
        """Tell whether an object has to be read; an object that is not listed has to be, too."""
        is_untouched = listed is not None and listed == known
        has_turn = number % ROTATION == self.run % ROTATION
        if is_untouched and not has_turn:
            self.objects_by_tag += 1
            return False
        self.objects_read += 1
        return True

    def remember(self, commits: Sequence[CommitTag] = (), files: Sequence[FileTag] = ()) -> None:
        """Remember the tags of what was equal, and forget those of what was not.

        Without a tag a damaged object is read, and found, by every run until it is repaired.
        """
        if commits or files:
            crash_point("before-object-tags")
            self.tags.remember(self.table_id, commits, files)
            crash_point("after-object-tags")
