"""What the listing of a log says: its files, the newest pointer, and what to warn of.

Nothing is decided here but what each file is; `plan` decides what of it is imported.
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from deltasql.errors import ObjectNotFoundError
from deltasql.imports.plan.commit_files import CommitFile, CommitFiles
from deltasql.log.commits import incomplete_checkpoints, usable_checkpoints
from deltasql.log.owner_marker import OWNER_KEY
from deltasql.protocol.log_names import (
    LAST_CHECKPOINT,
    LOG_FOLDER,
    MAX_VERSION,
    LastCheckpoint,
    LogFile,
    LogFileKind,
    commit_key,
    decode_hint,
)
from deltasql.storage.port import ObjectInfo, ObjectStore

# a hint holds some ten thousand characters of schema at most; what is bigger is none
_LARGEST_HINT = 4 * 1024 * 1024
_NUMBERED = re.compile(r"(\d+)\.(json|crc|checkpoint\..+)", re.ASCII)
_STAGED = frozenset({"_staged_commits", "_commits"})
_SIDECARS = "_sidecars"
_NAMED = 3
_LOOKED_AT = 200


class WarningCode(enum.StrEnum):
    """The name of a remark; stable, for machines."""

    HINT_MISSING = "hint-missing"
    HINT_CORRUPT = "hint-corrupt"
    HINT_STALE = "hint-stale"
    HINT_DANGLING = "hint-dangling"
    HINT_ABOVE_HEAD = "hint-above-head"
    INCOMPLETE_CHECKPOINT = "incomplete-checkpoint"
    EMPTY_CHECKPOINT = "empty-checkpoint"
    CORRUPT_CHECKPOINT = "corrupt-checkpoint"
    ORPHAN_CHECKPOINT = "orphan-checkpoint"
    SEVERAL_CHECKPOINTS = "several-checkpoints"
    CHECKPOINT_ABOVE_COMMITS = "checkpoint-above-commits"
    NO_CHECKPOINT = "no-checkpoint"
    NO_COMMIT_FILE = "no-commit-file"
    EMPTY_COMMIT = "empty-commit"
    UNREACHABLE_VERSIONS = "unreachable-versions"
    HISTORY_SKIPPED = "history-skipped"
    UP_TO_ABOVE_HEAD = "up-to-above-head"
    FILE_ABOVE_HEAD = "file-above-head"
    CHECKSUM_FILES = "checksum-files"
    COMPACTED_FILES = "compacted-files"
    STAGED_COMMITS = "staged-commits"
    HADOOP_FILES = "hadoop-files"
    HIDDEN_FILES = "hidden-files"
    OTHER_DIGITS = "other-digits"
    VERSION_TOO_LARGE = "version-too-large"
    STRANGER = "stranger"
    OWNER_MARKER = "owner-marker"


# what every healthy log may have; the rest deserves a look
_NOTES = frozenset(
    {
        WarningCode.HINT_MISSING,
        WarningCode.HINT_STALE,
        WarningCode.SEVERAL_CHECKPOINTS,
        WarningCode.HISTORY_SKIPPED,
        WarningCode.CHECKSUM_FILES,
        WarningCode.COMPACTED_FILES,
        WarningCode.HADOOP_FILES,
        WarningCode.HIDDEN_FILES,
    }
)


@dataclass(frozen=True, slots=True)
class PlanWarning:
    """One remark: what it is about, in one sentence, and the first of `count` keys."""

    code: WarningCode
    message: str
    key: str | None = None
    count: int = 1

    @property
    def is_note(self) -> bool:
        """Whether healthy logs have it too."""
        return self.code in _NOTES


def corrupt_checkpoint(message: str, key: str | None = None) -> PlanWarning:
    """Return the remark on a checkpoint that cannot be read, which the history can do without."""
    return PlanWarning(WarningCode.CORRUPT_CHECKPOINT, message, key)


_TALLIED = {
    WarningCode.EMPTY_CHECKPOINT: "of checkpoints are empty and count as absent",
    WarningCode.CHECKSUM_FILES: "hold checksums of versions, which import does not need",
    WarningCode.COMPACTED_FILES: "are compacted commits; the commits themselves are imported",
    WarningCode.STAGED_COMMITS: "are staged commits, which only the catalog that made them knows",
    WarningCode.HADOOP_FILES: "are Hadoop's checksums",
    WarningCode.HIDDEN_FILES: "are hidden from readers",
    WarningCode.OTHER_DIGITS: "have names of other than twenty digits, which no reader sees",
    WarningCode.VERSION_TOO_LARGE: "have versions beyond what Delta can count, and are ignored",
    WarningCode.STRANGER: "do not belong to a Delta log, and are ignored",
    WarningCode.FILE_ABOVE_HEAD: "are of versions that the log does not have",
}


@dataclass(slots=True)
class Tally:
    """Counts files by what is to say of them, so that a thousand of them make one remark."""

    seen: dict[WarningCode, tuple[int, str]] = field(default_factory=dict)

    def note(self, code: WarningCode, key: str) -> None:
        """Count one file; the first key of a kind is kept."""
        count, first = self.seen.get(code, (0, key))
        self.seen[code] = (count + 1, first)

    def warnings(self) -> list[PlanWarning]:
        """Return one remark per kind, in the order of the kinds' names."""
        return [
            PlanWarning(code, f"{count} of the files {_TALLIED[code]}: {key!r}.", key, count)
            for code, (count, key) in sorted(self.seen.items())
        ]


def judge_hint(
    hint: bytes | None, checkpoints: Sequence[tuple[LogFile, ...]], head: int
) -> PlanWarning | None:
    """Return what is wrong with the hint, or None; `checkpoints` are the usable ones, in order."""
    newest = checkpoints[-1][0].version if checkpoints else None
    if hint is None:
        missing = f"is missing; the newest checkpoint is {newest}"
        return None if newest is None else _warning(WarningCode.HINT_MISSING, missing)
    told = decode_hint(hint)
    if told is None:
        return _warning(WarningCode.HINT_CORRUPT, "cannot be read")
    named = f"names version {told.version}"
    if told.version > head:
        return _warning(WarningCode.HINT_ABOVE_HEAD, f"{named}, but the log ends at {head}")
    if not _is_there(told, checkpoints):
        return _warning(WarningCode.HINT_DANGLING, f"{named}, whose checkpoint is not there")
    if told.version != newest:
        return _warning(WarningCode.HINT_STALE, f"{named}; the newest checkpoint is {newest}")
    return None


def _is_there(told: LastCheckpoint, checkpoints: Sequence[tuple[LogFile, ...]]) -> bool:
    return any(
        parts[0].version == told.version and told.parts in (None, len(parts))
        for parts in checkpoints
    )


def _warning(code: WarningCode, says: str) -> PlanWarning:
    return PlanWarning(code, f"The hint {LAST_CHECKPOINT} {says}.", LAST_CHECKPOINT)


_BESIDE = {
    LogFileKind.COMPACTION: WarningCode.COMPACTED_FILES,
    LogFileKind.CHECKSUM: WarningCode.CHECKSUM_FILES,
}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint with all its parts; `size` leaves out the sidecars, which it names itself."""

    version: int
    kind: LogFileKind
    parts: tuple[LogFile, ...]
    size: int

    @property
    def key(self) -> str:
        """The first part's key."""
        return self.parts[0].key


@dataclass(frozen=True, slots=True)
class LogListing:
    """What a log holds, by names and sizes alone.

    `checkpoints` are the usable ones, oldest first; of one version, the one that readers prefer
    comes last.
    """

    uri: str
    commits: CommitFiles
    checkpoints: tuple[Checkpoint, ...]
    sidecar_bytes: int = 0
    is_owned: bool = False
    warnings: tuple[PlanWarning, ...] = ()

    @property
    def head(self) -> int:
        """The newest version: a commit's, or a checkpoint's that stands above all commits."""
        return max(
            self.commits.versions[-1] if self.commits else -1,
            self.checkpoints[-1].version if self.checkpoints else -1,
        )


def read_listing(store: ObjectStore) -> LogListing:
    """List a table's log and read its hint; nothing else is read.

    Raises:
        ObjectNotFoundError: there is no log, or nothing in it that counts.
    """
    files = list(store.list_from(LOG_FOLDER))
    if not files:
        raise ObjectNotFoundError(
            f"There is no Delta table at {store.uri}.", hint=look_around(store), uri=store.uri
        )
    return sort_listing(files, _read_hint(store, files), store.uri)


def sort_listing(files: Iterable[ObjectInfo], hint: bytes | None, uri: str) -> LogListing:
    """Return what these files of `_delta_log` are; `hint` is what `_last_checkpoint` holds.

    Raises:
        ObjectNotFoundError: there is no commit and no usable checkpoint among them.
    """
    sorting = _Sorting()
    commits = CommitFiles.of(sorting.commits(files))
    usable = usable_checkpoints(sorting.sizes)
    if not commits and not usable:
        raise _nothing_counts(sorting.tally, uri)
    checkpoints = tuple(
        Checkpoint(parts[0].version, parts[0].kind, parts, sum(sorting.sizes[p] for p in parts))
        for parts in usable
    )
    listing = LogListing(uri, commits, checkpoints, sorting.sidecar_bytes, sorting.is_owned)
    judged = judge_hint(hint, usable, listing.head)
    warnings = [*_remarks(listing, sorting), *([judged] if judged else [])]
    return replace(listing, warnings=tuple(warnings))


@dataclass(slots=True)
class _Sorting:
    """Names on their way to what they are."""

    sizes: dict[LogFile, int] = field(default_factory=dict)
    beside: list[LogFile] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    sidecar_bytes: int = 0
    is_owned: bool = False

    def commits(self, files: Iterable[ObjectInfo]) -> Iterator[CommitFile]:
        """Yield the commits; keep what the other files are."""
        for info in files:
            name = info.key.removeprefix(LOG_FOLDER)
            parsed = LogFile.parse(name)
            if parsed is None:
                self._other(name, info)
            elif parsed.kind is LogFileKind.COMMIT:
                yield CommitFile(parsed.version, info.size, info.modified_ms)
            elif parsed.kind in _BESIDE:
                self.beside.append(parsed)
            elif info.size:
                self.sizes[parsed] = info.size
            else:
                self.tally.note(WarningCode.EMPTY_CHECKPOINT, info.key)

    def _other(self, name: str, info: ObjectInfo) -> None:
        folder, _, inner = name.rpartition("/")
        if info.key == OWNER_KEY:
            self.is_owned = True
        elif folder == _SIDECARS and inner.endswith(".parquet") and not inner.startswith("."):
            self.sidecar_bytes += info.size
        elif name and info.key != LAST_CHECKPOINT:
            self.tally.note(_what(folder, inner), info.key)


def _what(folder: str, name: str) -> WarningCode:
    if name.startswith(".") and name.endswith(".crc"):
        return WarningCode.HADOOP_FILES
    if folder in _STAGED and name.endswith(".json") and not name.startswith((".", "_")):
        return WarningCode.STAGED_COMMITS
    if (folder or name).startswith((".", "_")) or name.startswith((".", "_")):
        return WarningCode.HIDDEN_FILES
    numbered = None if folder else _NUMBERED.fullmatch(name)
    if numbered is None:
        return WarningCode.STRANGER
    if len(numbered[1]) != 20:  # noqa: PLR2004 (Delta's names)
        return WarningCode.OTHER_DIGITS
    too_large = int(numbered[1]) > MAX_VERSION
    return WarningCode.VERSION_TOO_LARGE if too_large else WarningCode.STRANGER


def _read_hint(store: ObjectStore, files: Iterable[ObjectInfo]) -> bytes | None:
    if not any(info.key == LAST_CHECKPOINT for info in files):
        return None
    try:
        return store.get_range(LAST_CHECKPOINT, 0, _LARGEST_HINT)
    except ObjectNotFoundError:
        return None  # it went between the listing and now


def _nothing_counts(tally: Tally, uri: str) -> ObjectNotFoundError:
    told = " ".join(warning.message for warning in tally.warnings() if not warning.is_note)
    return ObjectNotFoundError(
        f"The log at {uri} holds no commit and no usable checkpoint.",
        hint=told or "Its commits were deleted, or it is the log of another kind of table.",
        uri=uri,
    )


def _remarks(listing: LogListing, sorting: _Sorting) -> Iterator[PlanWarning]:
    for file in sorting.beside:
        above = file.last_version > listing.head
        sorting.tally.note(WarningCode.FILE_ABOVE_HEAD if above else _BESIDE[file.kind], file.key)
    yield from sorting.tally.warnings()
    yield from _lacking(incomplete_checkpoints(sorting.sizes))
    yield from _several([checkpoint.parts for checkpoint in listing.checkpoints])
    if listing.commits and listing.head > listing.commits.versions[-1]:
        yield _above_commits(listing.checkpoints[-1], listing.commits.versions[-1])
    if listing.is_owned:
        yield _owned()


def _lacking(sets: Sequence[tuple[LogFile, ...]]) -> Iterator[PlanWarning]:
    if sets:
        newest = sets[-1][0]
        yield PlanWarning(
            WarningCode.INCOMPLETE_CHECKPOINT,
            f"The checkpoint of version {newest.version} has {len(sets[-1])} of its "
            f"{newest.parts} parts, and is not used{_more(sets)}.",
            newest.key,
            len(sets),
        )


def _several(usable: Sequence[tuple[LogFile, ...]]) -> Iterator[PlanWarning]:
    kinds = Counter(parts[0].version for parts in usable)
    doubled = [parts[0] for parts in usable if kinds[parts[0].version] > 1]
    if doubled:
        preferred = doubled[-1]
        versions = {file.version for file in doubled}
        yield PlanWarning(
            WarningCode.SEVERAL_CHECKPOINTS,
            f"Version {preferred.version} has {kinds[preferred.version]} checkpoints, of which "
            f"readers prefer {preferred.name}{_more(versions)}.",
            preferred.key,
            len(versions),
        )


def _more(found: Collection[object]) -> str:
    return f", and {len(found) - 1} more are like it" if len(found) > 1 else ""


def _above_commits(top: Checkpoint, newest: int) -> PlanWarning:
    return PlanWarning(
        WarningCode.CHECKPOINT_ABOVE_COMMITS,
        f"The checkpoint of version {top.version} stands above the newest commit, {newest}.",
        top.key,
    )


def _owned() -> PlanWarning:
    return PlanWarning(
        WarningCode.OWNER_MARKER, "A deltasql catalog writes this log already.", OWNER_KEY
    )


def newer_commits(store: ObjectStore, version: int) -> Iterator[CommitFile]:
    """Yield the commits above a version up to a gap; to look for each is quicker than a listing."""
    for each in count(version + 1):
        try:
            info = store.head(commit_key(each))
        except ObjectNotFoundError:
            return
        yield CommitFile(each, info.size, info.modified_ms)


def look_around(store: ObjectStore) -> str:
    """Return a hint: what lies at the place, or what else the caller may have meant."""
    log = LOG_FOLDER.rstrip("/")
    if store.uri.rstrip("/").rpartition("/")[2] == log:
        return f"Give the table's folder, which holds {log}, not {log} itself."
    folders = store.folders()
    tables = [
        folder.rstrip("/")
        for folder in folders[:_LOOKED_AT]
        if LOG_FOLDER in (below.removeprefix(folder) for below in store.folders(folder))
    ]
    if tables:
        named = ", ".join(repr(name) for name in tables[:_NAMED])
        more = " and others" if len(tables) > _NAMED else ""
        all_ = f"`catalog.imports.look_below({store.uri!r})` finds them all"
        return f"There are tables below it: {named}{more}; {all_}."
    alike = [folder.rstrip("/") for folder in folders if folder.lower().strip("_/") == "delta_log"]
    if alike:
        told = "is empty" if alike[0] == log else f"is not the {log} that Delta's readers look for"
        return f"The folder {alike[0]!r} {told}."
    return f"It holds no folder {log}; check how the location is spelled."
