"""How a log that cannot be imported whole is refused: what is missing, what can still be had."""

from __future__ import annotations

from deltasql.errors import LogGapError, MalformedActionError, ProtocolError, VersionNotFoundError
from deltasql.importer.commit_files import VersionRange
from deltasql.importer.reach import Reach, Start
from deltasql.protocol.files import commit_key


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


def baseless(reach: Reach, uri: str) -> ProtocolError:
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
