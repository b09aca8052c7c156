"""The plan of an import: which versions are read, from which checkpoint, in which tasks.

Every commit that the log retains is history. A checkpoint is the ground of a history whose
beginning is gone, or, with `checkpoint_only` or `from_version`, of one that is not wanted.

Make a plan from a store: list, plan, and believe in a hole only when it is proven. A listing is
made page by page while others write and clean up, so one alone proves no absence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from deltasql.errors import (
    BadArgumentError,
    DeltaSqlError,
    LogGapError,
    MalformedActionError,
    ObjectNotFoundError,
    ProtocolError,
    StorageUnavailableError,
    VersionNotFoundError,
)
from deltasql.imports.plan import reachability
from deltasql.imports.plan.commit_files import CommitFiles, VersionRange
from deltasql.imports.plan.listing import (
    Checkpoint,
    LogListing,
    PlanWarning,
    WarningCode,
    corrupt_checkpoint,
    read_listing,
)
from deltasql.imports.plan.reachability import Reach, Start, find_reach
from deltasql.protocol.log_names import LogFile, LogFileKind, commit_key
from deltasql.storage.port import ObjectStore

_LISTINGS = 5


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What of a log is wanted.

    `lenient` accepts a hole before a usable checkpoint: the history begins behind it. The history
    begins at `from_version`; 0 is whatever the log retains.
    """

    up_to_version: int | None = None
    checkpoint_only: bool = False
    lenient: bool = False
    from_version: int | None = None

    def __post_init__(self) -> None:
        """Refuse what no log can give."""
        for version in (self.up_to_version, self.from_version):
            _require_version(version)
        if self.from_version is None:
            return
        if self.checkpoint_only:
            raise BadArgumentError(
                f"An import begins at version {self.from_version} or at the newest checkpoint, "
                "not at both."
            )
        if self.up_to_version is not None and self.up_to_version < self.from_version:
            raise BadArgumentError(
                f"An import that begins at version {self.from_version} cannot end at version "
                f"{self.up_to_version}."
            )


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What will be imported: `first` to `head`, each version once.

    `commits` is without a hole and ends at `head`. It begins at 0, or at the version of `base`,
    whose state the checkpoint tells; where that version has no commit file, one version later.
    `left_out` are versions that have a commit file and are not imported; those from `first` to
    `oldest` are read, for the state that they lead to.
    """

    uri: str
    first: int
    head: int
    commits: CommitFiles
    base: Checkpoint | None
    candidates: tuple[Checkpoint | None, ...]
    left_out: tuple[VersionRange, ...]
    warnings: tuple[PlanWarning, ...]
    options: PlanOptions
    listing: LogListing = field(repr=False)
    refused: tuple[Checkpoint, ...] = ()

    @property
    def base_parts(self) -> tuple[LogFile, ...]:
        """The files of the checkpoint that the history stands on; none if it begins at 0."""
        return self.base.parts if self.base else ()

    @property
    def base_version(self) -> int | None:
        """The version of the checkpoint that the history stands on."""
        return self.base.version if self.base else None

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """All usable checkpoints up to the head, oldest first: also for validation."""
        return tuple(c for c in self.listing.checkpoints if c.version <= self.head)

    @property
    def oldest(self) -> int:
        """The oldest version that SQL will have."""
        return max(self.first, self.options.from_version or 0)

    @property
    def base_bytes(self) -> int:
        """The size of the checkpoint that will be read, with its share of the sidecars."""
        if self.base is None:
            return 0
        if self.base.kind is not LogFileKind.V2:
            return self.base.size
        sharing = sum(one.kind is LogFileKind.V2 for one in self.listing.checkpoints)
        return self.base.size + self.listing.sidecar_bytes // sharing

    def without_base(self, reason: str) -> ImportPlan:
        """Return the plan on the next candidate, now that `base` proved corrupt.

        Raises:
            LogGapError, MalformedActionError, VersionNotFoundError: the log stands on nothing else.
        """
        if self.base is None:
            raise BadArgumentError(f"The history of {self.uri} stands on no checkpoint.")
        said = corrupt_checkpoint(
            f"The checkpoint of version {self.base.version} is corrupt: {reason}", self.base.key
        )
        listing = replace(self.listing, warnings=(*self.listing.warnings, said))
        try:
            return plan_listing(listing, self.options, refused=(*self.refused, self.base))
        except (ProtocolError, VersionNotFoundError) as error:
            # what is left of the log does not tell what was wrong
            raise type(error)(
                f"{error.message.removesuffix('.')}; {said.message[0].lower()}{said.message[1:]}",
                hint=error.advice,
                **error.context,
            ) from error


def plan_listing(
    listing: LogListing, options: PlanOptions, *, refused: tuple[Checkpoint, ...] = ()
) -> ImportPlan:
    """Return what an import will read, standing on none of the checkpoints in `refused`.

    Raises:
        ObjectNotFoundError: nothing in the listing counts.
        LogGapError, MalformedActionError: a version is missing or empty.
        VersionNotFoundError: the wanted beginning or end cannot be reconstructed.
    """
    usable = [checkpoint for checkpoint in listing.checkpoints if checkpoint not in refused]
    reach = find_reach(listing.commits, usable, _head(listing, options))
    starts = _choose(reach, replace(listing, checkpoints=tuple(usable)), options)
    start = starts[0]
    oldest = max(start.version, options.from_version or 0)
    left_out = reach.commits.between(0, oldest - 1).ranges()
    return ImportPlan(
        uri=listing.uri,
        first=start.version,
        head=reach.head,
        # a checkpoint's own commit may be empty: it is not needed
        commits=reach.filled.between(start.version, reach.head),
        base=start.checkpoint,
        candidates=tuple(other.checkpoint for other in starts[1:]),
        left_out=left_out,
        warnings=(*listing.warnings, *_remarks(reach, start, left_out, options)),
        options=options,
        listing=listing,
        refused=refused,
    )


def _head(listing: LogListing, options: PlanOptions) -> int:
    wanted = options.up_to_version
    return listing.head if wanted is None else min(wanted, listing.head)


def _choose(reach: Reach, listing: LogListing, options: PlanOptions) -> tuple[Start, ...]:
    """Return the starts to try, in order."""
    if options.from_version:
        return _choose_from(reach, options.from_version, listing, lenient=options.lenient)
    leading, oldest = reach.to_head(), reach.oldest
    if leading and options.checkpoint_only:
        return tuple(sorted(leading, key=lambda start: (-start.version, not start.checkpoint)))
    if leading and (options.lenient or (oldest and oldest.last >= reach.head)):
        # version 0 itself cannot prove corrupt: then nothing else is to be tried
        return leading if leading[0].checkpoint else leading[:1]
    if options.lenient or options.checkpoint_only:  # earlier holes would have been accepted
        oldest = max(reach.starts, key=lambda start: start.last, default=None)
    raise _refusal(reach, oldest, listing)


def _choose_from(
    reach: Reach, version: int, listing: LogListing, *, lenient: bool
) -> tuple[Start, ...]:
    """Return the starts to try for a history that begins at a version, the nearest first."""
    if version > reach.head:
        raise reachability.above_head(version, reach.head, listing.uri)
    leading = reach.to_head()
    near = [start for start in leading if start.version <= version]
    if near:
        near.sort(key=lambda start: (-start.version, not start.checkpoint))
        # version 0 itself cannot prove corrupt: then nothing else is to be tried
        return tuple(near) if near[0].checkpoint else tuple(near[:1])
    if lenient and leading:
        return leading
    begun = [start for start in reach.starts if start.version <= version <= start.last]
    if begun or not leading:
        longest = max(begun or reach.starts, key=lambda start: start.last, default=None)
        raise _refusal(reach, longest, listing)
    raise reachability.before_reach(version, leading[0], reach, listing.uri)


def _refusal(reach: Reach, start: Start | None, listing: LogListing) -> DeltaSqlError:
    if start is not None and (reach.commits or reach.head == listing.head):
        return reachability.broken(reach, start, listing.uri)
    if reach.head < listing.head:
        whole = find_reach(listing.commits, listing.checkpoints, listing.head)
        return reachability.out_of_reach(reach.head, whole, listing.uri)
    return reachability.no_base_error(reach, listing.uri)


def _remarks(
    reach: Reach, start: Start, left_out: tuple[VersionRange, ...], want: PlanOptions
) -> Iterator[PlanWarning]:
    if want.up_to_version is not None and want.up_to_version > reach.head:
        yield PlanWarning(
            WarningCode.UP_TO_ABOVE_HEAD,
            f"The log ends at version {reach.head}, before version {want.up_to_version}.",
        )
    orphans = [other for other in reach.starts if other.version < reach.edge]
    if orphans:
        yield PlanWarning(
            WarningCode.ORPHAN_CHECKPOINT,
            f"No commit follows the checkpoint of version {orphans[-1].version}, which is older "
            "than all commits.",
            orphans[-1].checkpoint.key if orphans[-1].checkpoint else None,
            len(orphans),
        )
    if want.checkpoint_only and start.checkpoint is None:
        yield PlanWarning(
            WarningCode.NO_CHECKPOINT,
            "There is no checkpoint to begin with: the whole history is imported.",
        )
    if reach.filled.find(start.version) is None and start.version >= (want.from_version or 0):
        yield _without_commit(reach, start.version)
    if left_out:
        yield _left_out(reach, start.version, left_out, want)


def _without_commit(reach: Reach, version: int) -> PlanWarning:
    key = commit_key(version)
    if reach.commits.find(version) is None:
        code, state = WarningCode.NO_COMMIT_FILE, "has no commit file"
    else:
        code, state = WarningCode.EMPTY_COMMIT, "has an empty commit file"
    return PlanWarning(code, f"Version {version} {state}; only its checkpoint is imported.", key)


def _left_out(
    reach: Reach, first: int, spans: tuple[VersionRange, ...], want: PlanOptions
) -> PlanWarning:
    count = sum(len(span) for span in spans)
    told = f"{reachability.listed(spans)} {'are' if count > 1 else 'is'}"
    key = commit_key(spans[0].first)
    if want.checkpoint_only or first <= (want.from_version or -1):
        first = max(first, want.from_version or 0)
        text = f"{told} not imported: the history begins at version {first}."
        return PlanWarning(WarningCode.HISTORY_SKIPPED, text, key, count)
    oldest, hole = reach.oldest, ""
    if oldest and oldest.last < reach.head:
        hole = f"version {oldest.last + 1} is missing or empty"
    text = (
        f"{told} not imported: {hole or 'no checkpoint stands before'}, and the "
        f"history begins at version {first}."
    )
    return PlanWarning(WarningCode.UNREACHABLE_VERSIONS, text, key, count)


def _require_version(version: object) -> None:
    if version is None:
        return
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise BadArgumentError(f"There is no version {version!r}: versions count from 0.")


def read_plan(store: ObjectStore, options: PlanOptions | None = None) -> ImportPlan:
    """List a table's log and return what an import of it will read.

    Raises:
        ObjectNotFoundError: there is no log, or nothing in it that counts.
        LogGapError, MalformedActionError: a version is missing or empty.
        VersionNotFoundError: the wanted end cannot be reconstructed.
        StorageUnavailableError: the log changed under every listing.
    """
    want = options or PlanOptions()
    before: object = None
    for _ in range(_LISTINGS):
        try:
            return plan_listing(read_listing(store), want)
        except (LogGapError, MalformedActionError) as error:
            missing = error.context["missing"]
            if missing == before and isinstance(missing, int) and not _is_there(store, missing):
                raise
            before = missing
    raise StorageUnavailableError(
        f"The log at {store.uri} changed under every listing of it.",
        hint="Another program writes or cleans it up now; try again.",
    )


def _is_there(store: ObjectStore, version: int) -> bool:
    try:
        return store.head(commit_key(version)).size > 0
    except ObjectNotFoundError:
        return False
