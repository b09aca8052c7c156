"""Which objects of a log a comparison reads: all of them, or those that a listing cannot vouch for.

An object whose size and entity tag are the remembered ones has not been written since its bytes
were equal to SQL's. A disk or a store may still change bytes and keep the tag, so every object is
read once in `ROTATION` runs in any case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltasql.catalog.object_tags import CommitTag, FileTag, ObjectTags
from deltasql.crash import crash_point
from deltasql.storage.port import ObjectTag

ROTATION = 30


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
