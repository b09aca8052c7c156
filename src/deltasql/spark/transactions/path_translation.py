"""Commits of a staged log as one commit of the table: paths, deletion vectors, row versions. Pure.

A staged log lies in a folder below the table's root. It names the table's own files by absolute
path, in Hadoop's spelling `file:/x`; what Delta Spark adds is relative to the staged folder.

Rows of tracked tables tell the version that changed them last: that of the whole transaction. A
staged log counts its own versions, and Delta Spark copies the number of a file's version into the
rows that it moves elsewhere. So the files that a statement has added are given the number of the
commit to come before the next statement reads them.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from deltasql.errors import InvalidCommitError, UnsupportedFeatureError
from deltasql.metastore.references import is_absolute, vector_path
from deltasql.protocol.actions import (
    Action,
    Add,
    Cdc,
    CommitInfo,
    DeletionVector,
    FileKey,
    Metadata,
    Remove,
    file_key,
    path_key,
)
from deltasql.protocol.changes import NetActions
from deltasql.protocol.log_names import LOG_FOLDER, LogFile, LogFileKind, commit_key
from deltasql.protocol.properties import read_bool

CHANGE_FEED = "delta.enableChangeDataFeed"

_FIELD = "defaultRowCommitVersion"

# by the version of the commit in the staged log, the version that the rows of each file shall have
Wrong: TypeAlias = Mapping[int, Mapping[str, int | None]]

_LOCAL = "file:///"
_UUID_CHARS = 20
_ENCODED = re.compile(r"(?:%[89A-F][0-9A-F])+")
_LETTERS = re.compile(r"[^\x00-\x7f]+")
_LAST_CONTROL = "\x9f"
FileAction = TypeVar("FileAction", Add, Remove)


@dataclass(frozen=True, slots=True)
class StagedCommit:
    """One commit of a staged log: what a single statement did."""

    actions: tuple[Action, ...]
    version: int = 0

    @property
    def info(self) -> CommitInfo:
        """What Delta Spark tells of the statement."""
        return next((a for a in self.actions if isinstance(a, CommitInfo)), CommitInfo())

    @property
    def paths(self) -> Iterator[str]:
        """The files that it names."""
        return (a.path for a in self.actions if isinstance(a, Add | Remove | Cdc))

    @property
    def tracks_rows(self) -> bool:
        """Tell whether files were added whose rows have versions."""
        adds = (action for action in self.actions if isinstance(action, Add))
        return any(add.default_row_commit_version is not None for add in adds)

    @property
    def has_files(self) -> bool:
        """Tell whether rows were written, moved or deleted."""
        return any(isinstance(action, Add | Remove | Cdc) for action in self.actions)


def fold(commits: Iterable[StagedCommit], live: Container[FileKey]) -> list[Action]:
    """Return the net actions of the commits, in order; `live` are the files before them.

    A file that was added and removed again is not among them; of metadata, protocol,
    applications and domains the last word counts.
    """
    net = NetActions(lambda _: live)
    for commit in commits:
        net.commit([action for action in commit.actions if not isinstance(action, CommitInfo)])
    return net.actions


def refuse_lost_changes(table: str, metadata: Metadata, commits: Sequence[StagedCommit]) -> None:
    """Refuse several writes to a table with a change feed: folded, some changes would be lost.

    Raises:
        InvalidCommitError: names the table.
    """
    words = [metadata, *(a for one in commits for a in one.actions if isinstance(a, Metadata))]
    has_feed = any(read_bool(word.configuration, CHANGE_FEED) for word in words)
    if has_feed and sum(commit.has_files for commit in commits) > 1:
        raise second_write(table)


def second_write(table: str) -> InvalidCommitError:
    """Return the error of a second write to a table with a change feed."""
    return InvalidCommitError(
        f"Table {table} has a change data feed ({CHANGE_FEED}): a transaction writes to it by one "
        "statement only.",
        hint="Put the changes into one MERGE, or commit them one by one.",
        table=table,
    )


def right_version(add: Add, original: Add | None, next_version: int) -> int | None:
    """Return the version that the rows of a file have by default.

    A file that the table had before keeps its own, whatever was deleted from it.
    """
    if add.default_row_commit_version is None:
        return None
    known = None if original is None else original.default_row_commit_version
    return next_version if known is None else known


def misnumbered(
    commits: Sequence[StagedCommit], originals: Mapping[str, Add], next_version: int
) -> Wrong:
    """Return the files with another version than they will have."""
    found: dict[int, dict[str, int | None]] = {}
    for commit in commits:
        for add in _adds(commit):
            right = right_version(add, originals.get(add.path), next_version)
            if add.default_row_commit_version != right:
                found.setdefault(commit.version, {})[add.path] = right
    return found


def refuse_copied(table: str, commits: Sequence[StagedCommit], wrong: Wrong) -> None:
    """Refuse that rows were copied out of files with a wrong number.

    Raises:
        InvalidCommitError: names the table.
    """
    for number, paths in wrong.items():
        if paths.keys() & _left(commits, number):
            raise InvalidCommitError(
                f"Table {table} tracks its rows, and a write by path rewrote rows that another "
                "one had just written: their versions would be wrong.",
                hint="Use tx.sql for statements on this table, or call tx.path before each write.",
                table=table,
            )


def renumber(folder: Path, commits: Sequence[StagedCommit], wrong: Wrong) -> bool:
    """Put right what is wrong; files that were left before stay as they are.

    Returns whether the log was changed, so that Delta Spark must read it again.
    """
    changed = False
    for number, versions in wrong.items():
        left = _left(commits, number)
        still = {path: version for path, version in versions.items() if path not in left}
        if still:
            file = folder / commit_key(number)
            lines = [_renumbered(line, still) for line in file.read_text().splitlines()]
            file.write_text("".join(f"{line}\n" for line in lines))
            changed = True
    if changed:
        _drop_derived(folder / LOG_FOLDER)
    return changed


def _adds(commit: StagedCommit) -> Iterator[Add]:
    return (action for action in commit.actions if isinstance(action, Add))


def _left(commits: Sequence[StagedCommit], since: int) -> set[str]:
    """Return the files that rows were taken out of later; one with a new vector is not left."""
    found: set[str] = set()
    for commit in (one for one in commits if one.version > since):
        kept = {add.path for add in _adds(commit)}
        found |= {a.path for a in commit.actions if isinstance(a, Remove)} - kept
    return found


def _renumbered(line: str, versions: Mapping[str, int | None]) -> str:
    action = json.loads(line)
    path = action.get("add", {}).get("path")
    if path not in versions:
        return line
    action["add"][_FIELD] = versions[path]
    return json.dumps(action, separators=(",", ":"), ensure_ascii=False)


def _drop_derived(log: Path) -> None:
    """Delete what Delta Spark derived from the commits: checkpoints, and checksums of all kinds."""
    for file in log.iterdir():
        known = LogFile.parse(file.name)
        is_commit = known is not None and known.kind is LogFileKind.COMMIT
        is_of_the_first = file.name.lstrip(".").startswith(f"{0:020}")
        if file.is_file() and not is_commit and not is_of_the_first:
            file.unlink()


@dataclass(frozen=True, slots=True)
class StagedPlace:
    """Where a staged log lies: `root` is the table's as Hadoop spells it, `folder` below it."""

    table: str
    root: str
    folder: str


@dataclass(frozen=True, slots=True)
class Translation:
    """Live files of a table, by the path that the staged log gives them."""

    place: StagedPlace
    originals: Mapping[str, Add]

    @classmethod
    def of(cls, adds: Iterable[Add], place: StagedPlace) -> Translation:
        """Return the translation of these live files.

        Raises:
            UnsupportedFeatureError: the table names a file twice, by two paths.
        """
        found: dict[str, Add] = {}
        for add in adds:
            first = found.setdefault(staged_path(add.path, place), add)
            if first is not add:
                raise named_twice_error(place, first.path, add.path)
        return cls(place, found)

    @property
    def live(self) -> frozenset[FileKey]:
        """The identities that the files have in the staged log."""
        return frozenset(file_key(add) for add in self.staged_adds())

    def staged_adds(self) -> list[Add]:
        """Return the live files as the first commit of the staged log names them."""
        return [
            msgspec.structs.replace(
                add,
                path=path,
                data_change=False,
                deletion_vector=staged_vector(add.deletion_vector, self.place),
            )
            for path, add in self.originals.items()
        ]

    def back(self, action: Action, next_version: int) -> Action:
        """Return an action of a staged commit as one of the table itself.

        `next_version` is the one that the commit will get.

        Raises:
            InvalidCommitError: it names a file that is neither the table's nor new.
        """
        match action:
            case Add():
                version = right_version(action, self.originals.get(action.path), next_version)
                return msgspec.structs.replace(
                    self._file(action), default_row_commit_version=version
                )
            case Remove():
                return self._remove(action)
            case Cdc():
                return msgspec.structs.replace(action, path=self._path(action.path))
        return action

    def _remove(self, remove: Remove) -> Remove:
        # Delta Spark leaves null partition values out; the time is the commit's.
        original = self.originals.get(remove.path)
        values = remove.partition_values if original is None else original.partition_values
        return msgspec.structs.replace(
            self._file(remove), partition_values=values, deletion_timestamp=None
        )

    def _file(self, action: FileAction) -> FileAction:
        return msgspec.structs.replace(
            action,
            path=self._path(action.path),
            deletion_vector=self._vector(action.path, action.deletion_vector),
        )

    def _path(self, path: str) -> str:
        if path in self.originals:
            return self.originals[path].path
        if is_absolute(path):
            raise InvalidCommitError(
                f"A statement on {self.place.table} names the file {path}, which the table does "
                "not have.",
                table=self.place.table,
                path=path,
            )
        return f"{self.place.folder}/{path}"

    def _vector(self, path: str, vector: DeletionVector | None) -> DeletionVector | None:
        if vector is None or vector.storage_type == "i":
            return vector
        if vector.storage_type == "u":
            text = vector.path_or_inline_dv
            prefix, code = text[:-_UUID_CHARS], text[-_UUID_CHARS:]
            inside = f"{self.place.folder}/{prefix}" if prefix else self.place.folder
            return msgspec.structs.replace(vector, path_or_inline_dv=inside + code)
        original = self.originals[path].deletion_vector if path in self.originals else None
        staged = staged_vector(original, self.place)
        if staged is None or staged.id != vector.id:
            raise InvalidCommitError(
                f"A statement on {self.place.table} gives the file {path} a deletion vector that "
                "the table does not have.",
                table=self.place.table,
                path=path,
            )
        return original


def named_twice_error(place: StagedPlace, one: str, other: str) -> UnsupportedFeatureError:
    """Return the error of a file with two paths."""
    return UnsupportedFeatureError(
        f"Table {place.table} names one file twice, as {one} and as {other}: transactions by Spark "
        "cannot tell them apart.",
        table=place.table,
    )


def keys_of(path: str, place: StagedPlace) -> tuple[str, ...]:
    """Return the keys that a file may have in the table, which the staged log names by a path."""
    below = f"{place.root}/"
    relative = path.removeprefix(below) if path.startswith(below) else path
    spellings = (path, without_letters(path), relative, without_letters(relative))
    return tuple({path_key(spelling) for spelling in spellings})


def staged_path(path: str, place: StagedPlace) -> str:
    """Return the absolute path of a file of the table, as Hadoop spells it.

    Raises:
        UnsupportedFeatureError: it is not on local files.
    """
    one_spelling = path_key(path)
    if one_spelling.startswith(_LOCAL):
        return f"file:/{with_letters(one_spelling.removeprefix(_LOCAL))}"
    if is_absolute(path):
        raise UnsupportedFeatureError(
            f"Table {place.table} has the file {path}, which is not on local files.",
            hint="Transactions by Spark work on tables on local files.",
            table=place.table,
        )
    return f"{place.root}/{with_letters(path)}"


def staged_vector(vector: DeletionVector | None, place: StagedPlace) -> DeletionVector | None:
    """Return the vector by absolute path: one of type `u` is relative to the table's root."""
    path = None if vector is None else vector_path(vector)
    if vector is None or path is None:
        return vector
    return msgspec.structs.replace(
        vector, storage_type="p", path_or_inline_dv=staged_path(path, place)
    )


def with_letters(path: str) -> str:
    """Return a path as Hadoop spells it: with letters beyond ASCII as they are.

    A log may spell them `%C3%A9`, and deltasql does. Delta Spark compares paths by their text when
    it writes deletion vectors, and gives up where its own spelling differs. Where
    `without_letters` would not give the same path back, it stays as it is.
    """
    found = _ENCODED.sub(_decoded, path)
    return found if without_letters(found) == path else path


def without_letters(path: str) -> str:
    """Return the path with its letters percent-encoded."""
    return _LETTERS.sub(lambda found: quote(found[0]), path)


def _decoded(found: re.Match[str]) -> str:
    try:
        text = bytes.fromhex(found[0].replace("%", "")).decode()
    except UnicodeDecodeError:
        return found[0]
    # Java keeps what is neither a space nor a control character
    return "".join(
        quote(c) if c <= _LAST_CONTROL or unicodedata.category(c)[0] == "Z" else c for c in text
    )
