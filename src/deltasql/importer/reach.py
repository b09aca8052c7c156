"""Which versions of a log can be reconstructed, and from where: arithmetic of versions only.

A version can be reconstructed from version 0 or from a checkpoint, by the commits between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from deltasql.importer.commit_files import CommitFiles, VersionRange
from deltasql.importer.listing import Checkpoint


@dataclass(frozen=True, slots=True)
class Start:
    """Where a history may begin: a checkpoint, or version 0 (None), and how far it leads."""

    version: int
    checkpoint: Checkpoint | None
    last: int


@dataclass(frozen=True, slots=True)
class Reach:
    """What can be reconstructed of a log up to `head`.

    `commits` are all commit files up to there, `filled` those that hold anything; `starts` are in
    the order of their versions, of one version the preferred one first.
    """

    head: int
    commits: CommitFiles
    filled: CommitFiles
    starts: tuple[Start, ...]

    @property
    def edge(self) -> int:
        """The oldest version that a history may begin at; a checkpoint before it leads nowhere."""
        return self.commits.versions[0] - 1 if self.commits else self.head

    @property
    def oldest(self) -> Start | None:
        """The start of the longest history that the log promises."""
        return next((start for start in self.starts if start.version >= self.edge), None)

    def to_head(self) -> tuple[Start, ...]:
        """Return the starts that lead to the head, oldest first."""
        return tuple(start for start in self.starts if start.last >= self.head)

    def reconstructible(self) -> tuple[VersionRange, ...]:
        """Return the versions whose state can be told, as ranges."""
        return tuple(_merged(VersionRange(start.version, start.last) for start in self.starts))


def find_reach(commits: CommitFiles, checkpoints: Iterable[Checkpoint], head: int) -> Reach:
    """Return what these files can reconstruct up to `head`; later files do not count."""
    commits = commits.between(0, head)
    filled = commits.filled()
    runs = filled.ranges()
    ends = {run.first: run.last for run in runs}
    starts = [Start(0, None, ends[0])] if 0 in ends else []
    usable = [checkpoint for checkpoint in checkpoints if checkpoint.version <= head]
    # preferred ones come last of their version, and are to be tried first
    usable.reverse()
    usable.sort(key=lambda checkpoint: checkpoint.version)
    at = 0
    for checkpoint in usable:
        after = checkpoint.version + 1
        while at < len(runs) and runs[at].last < after:
            at += 1
        leads = at < len(runs) and after in runs[at]
        last = runs[at].last if leads else checkpoint.version
        starts.append(Start(checkpoint.version, checkpoint, last))
    return Reach(head, commits, filled, tuple(starts))


def _merged(ranges: Iterable[VersionRange]) -> Iterator[VersionRange]:
    current: VersionRange | None = None
    for span in sorted(ranges):
        if current is None:
            current = span
        elif span.first <= current.last + 1:
            current = VersionRange(current.first, max(current.last, span.last))
        else:
            yield current
            current = span
    if current is not None:
        yield current
