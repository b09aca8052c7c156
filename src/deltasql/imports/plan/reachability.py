"""Which versions can be rebuilt from commits and checkpoints, and where a log has gaps.

Which versions of a log can be reconstructed, and from where: arithmetic of versions only. A
version can be reconstructed from version 0 or from a checkpoint, by the commits between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from deltasql.errors import LogGapError, MalformedActionError, ProtocolError, VersionNotFoundError
from deltasql.imports.plan.commit_files import CommitFiles, VersionRange
from deltasql.imports.plan.listing import Checkpoint
from deltasql.protocol.log_names import commit_key


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


def broken(reach: Reach, start: Start, uri: str) -> ProtocolError:
    """Return the error for a history that begins at `start` and ends before the head."""
    missing = start.last + 1
    told = {"missing": missing, "version": missing, "recoverable": _plain(reach)}
    if reach.commits.find(missing) is not None:
        return MalformedActionError(
            f"The commit {commit_key(missing)} at {uri} is empty.",
            hint=_advice(reach, start),
            **told,
        )
    return LogGapError(
        f"Version {missing} is missing from the log at {uri}.", hint=_advice(reach, start), **told
    )


def no_base_error(reach: Reach, uri: str) -> ProtocolError:
    """Return the error for a head that stands on nothing."""
    if not reach.commits:
        return LogGapError(
            f"Version {reach.head} at {uri} has no commit and no checkpoint that can be read.",
            hint="Bring the checkpoint back from a backup.",
            missing=reach.head,
            recoverable=_plain(reach),
        )
    first = reach.commits.versions[0]
    told = {"missing": max(first - 1, 0), "recoverable": _plain(reach)}
    if first == 0:  # it is there, so it must be empty
        return MalformedActionError(
            f"The commit {commit_key(0)} at {uri} is empty.",
            hint="Bring it back from a backup: no checkpoint stands in for it.",
            version=0,
            **told,
        )
    return LogGapError(
        f"The log at {uri} begins at version {first} and has no usable checkpoint of version "
        f"{first - 1} or later.",
        hint=f"Bring version {first - 1} and those before it back, or a checkpoint.",
        **told,
    )


def out_of_reach(wanted: int, whole: Reach, uri: str) -> VersionNotFoundError:
    """Return the error for an end that lies before everything that can be reconstructed."""
    spans = whole.reconstructible()
    return VersionNotFoundError(
        f"Version {wanted} of the log at {uri} cannot be reconstructed.",
        hint=f"{listed(spans)} can be." if spans else "No other version can be, either.",
        version=wanted,
        recoverable=_plain(whole),
    )


def above_head(wanted: int, head: int, uri: str) -> VersionNotFoundError:
    """Return the error for a history that would begin after the newest version."""
    return VersionNotFoundError(
        f"There is nothing to import from version {wanted} on: the log at {uri} ends at version "
        f"{head}.",
        hint=f"Versions up to {head} can be the oldest one.",
        version=wanted,
        head=head,
    )


def before_reach(wanted: int, oldest: Start, reach: Reach, uri: str) -> VersionNotFoundError:
    """Return the error for a beginning that lies before everything that leads to the head."""
    return VersionNotFoundError(
        f"Version {wanted} of the log at {uri} cannot be reconstructed; the oldest version that "
        f"the history can begin at is {oldest.version}.",
        hint=f"{listed(reach.reconstructible())} can be reconstructed; `lenient=True` begins "
        f"the history at version {oldest.version}.",
        version=wanted,
        oldest=oldest.version,
        recoverable=_plain(reach),
    )


def _advice(reach: Reach, start: Start) -> str:
    words = [f"{listed(reach.reconstructible())} can be reconstructed"]
    words.append(f"`up_to_version={start.last}` ends the import before the gap")
    later = reach.to_head()
    if later:
        words.append(f"`lenient=True` begins its history at version {later[0].version}")
        newest = later[-1].version
        base = f"the checkpoint of version {newest}"
        words.append(f"`checkpoint_only=True` takes {base} and what follows")
    return "; ".join(words) + "."


def listed(spans: tuple[VersionRange, ...], most: int = 5) -> str:
    """Return ranges as words, the first few of them: `Versions 0 to 6 and 10 to 13`."""
    if len(spans) == 1 and len(spans[0]) == 1:
        return f"Version {spans[0]}"
    told = [str(span) for span in spans[:most]]
    if len(spans) > most:
        told.append(f"others up to {spans[-1].last}")
    words = " and ".join([", ".join(told[:-1]), told[-1]]) if len(told) > 1 else told[0]
    return f"Versions {words}"


def _plain(reach: Reach) -> list[tuple[int, int]]:
    return [(span.first, span.last) for span in reach.reconstructible()]
