"""A log's commits: put one, list the newest segment, digest an object."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deltasql.crash import crash_point
from deltasql.errors import LogGapError, MirrorConflictError, ObjectNotFoundError
from deltasql.protocol.log_names import LOG_FOLDER, LogFile, LogFileKind, commit_key
from deltasql.storage.port import Created, Creation, ObjectStore, create_tagged

_RANK = {LogFileKind.CHECKPOINT: 0, LogFileKind.MULTIPART: 1, LogFileKind.V2: 2}
_PIECE = 8 * 1024 * 1024


def write_commit(store: ObjectStore, version: int, payload: bytes) -> Creation:
    """Put a version's bytes if absent, and read back whenever the outcome is in doubt.

    The caller has made sure that the version before it is there.

    Raises:
        MirrorConflictError: the log holds other bytes; they were left untouched.
        StorageUnavailableError: nothing is there; try again.
    """
    key = commit_key(version)
    crash_point("before-put")
    created = create_tagged(store, key, payload)
    crash_point("after-put")
    if created.outcome is Created.DIFFERENT:
        raise MirrorConflictError(
            f"{key} at {store.uri} holds other bytes than version {version} in SQL.",
            key=key,
            version=version,
        )
    return created


@dataclass(frozen=True, slots=True)
class Segment:
    """The files that give the newest state: a checkpoint's parts, then commits without a gap."""

    checkpoint: tuple[LogFile, ...]
    commits: tuple[LogFile, ...]

    @property
    def version(self) -> int:
        """The newest version."""
        return self.commits[-1].version if self.commits else self.checkpoint[0].version


def read_segment(store: ObjectStore) -> Segment:
    """List the log and return what the newest version is made of.

    Raises:
        ObjectNotFoundError: there is no Delta log.
        LogGapError: a commit between the checkpoint and the newest version is missing.
    """
    found = []
    for info in store.list_from(LOG_FOLDER):
        name = info.key.removeprefix(LOG_FOLDER)
        parsed = LogFile.parse(name) if "/" not in name else None
        # an empty checkpoint is a torn one; an empty commit is there and must be told as such
        if parsed is not None and (info.size or parsed.kind is LogFileKind.COMMIT):
            found.append(parsed)
    return build_segment(found, store.uri)


def newest_commit(store: ObjectStore) -> int | None:
    """Return the highest version that the log has a commit of, or None."""
    newest = None
    for info in store.list_from(LOG_FOLDER):
        file = LogFile.parse(info.key.removeprefix(LOG_FOLDER))
        if file is not None and file.kind is LogFileKind.COMMIT:
            newest = file.version if newest is None else max(newest, file.version)
    return newest


def build_segment(files: Iterable[LogFile], uri: str) -> Segment:
    """Return the newest segment of these files; see `read_segment`."""
    listed = list(files)
    commits = sorted(file for file in listed if file.kind is LogFileKind.COMMIT)
    checkpoint = _newest_checkpoint(listed)
    if not commits and not checkpoint:
        raise ObjectNotFoundError(f"There is no Delta log at {uri}.")
    after = checkpoint[0].version if checkpoint else -1
    tail = tuple(file for file in commits if file.version > after)
    for expected, file in enumerate(tail, start=after + 1):
        if file.version != expected:
            raise LogGapError(
                f"Version {expected} is missing from the log at {uri}.", missing=expected
            )
    return Segment(checkpoint, tail)


def _newest_checkpoint(files: Sequence[LogFile]) -> tuple[LogFile, ...]:
    found = usable_checkpoints(files)
    return found[-1] if found else ()


def usable_checkpoints(files: Iterable[LogFile]) -> list[tuple[LogFile, ...]]:
    """Return the checkpoints that have all their parts, oldest first, the better kind last."""
    return [parts for parts in _checkpoint_sets(files) if _is_complete(parts)]


def incomplete_checkpoints(files: Iterable[LogFile]) -> list[tuple[LogFile, ...]]:
    """Return what is there of the checkpoints that lack a part, oldest first."""
    return [parts for parts in _checkpoint_sets(files) if not _is_complete(parts)]


def _checkpoint_sets(files: Iterable[LogFile]) -> list[tuple[LogFile, ...]]:
    groups: dict[tuple[int, int, int, str], list[LogFile]] = defaultdict(list)
    for file in files:
        rank = _RANK.get(file.kind)
        if rank is not None:
            label = file.name if file.kind is LogFileKind.V2 else ""
            groups[(file.version, rank, file.parts, label)].append(file)
    return [tuple(sorted(groups[key], key=lambda file: file.part)) for key in sorted(groups)]


def _is_complete(parts: Sequence[LogFile]) -> bool:
    if parts[0].kind is not LogFileKind.MULTIPART:
        return True
    # the count comes from a name: it is compared, never counted up to
    numbers = [file.part for file in parts]
    return len(numbers) == parts[0].parts and numbers == list(range(1, len(numbers) + 1))


def object_digest(store: ObjectStore, key: str) -> str | None:
    """Return the digest of an object, read in pieces; None if it is not there."""
    try:
        with store.open_input(key) as file:
            made = hashlib.sha256()
            while piece := file.read(_PIECE):
                made.update(piece)
    except ObjectNotFoundError:
        return None
    return made.hexdigest()
