"""Pure: paths and deletion vectors of a table as its staged log spells them, and back.

A staged log lies in a folder below the table's root. It names the table's own files by absolute
path, in Hadoop's spelling `file:/x`; what Delta Spark adds is relative to the staged folder.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

import msgspec

from deltasql.catalog.objects import is_absolute, vector_path
from deltasql.errors import InvalidCommitError, UnsupportedFeatureError
from deltasql.protocol.actions import Action, Add, Cdc, DeletionVector, Remove
from deltasql.protocol.identity import FileKey, file_key, path_key
from deltasql.spark.row_versions import right_version

_LOCAL = "file:///"
_UUID_CHARS = 20
_ENCODED = re.compile(r"(?:%[89A-F][0-9A-F])+")
_LETTERS = re.compile(r"[^\x00-\x7f]+")
_LAST_CONTROL = "\x9f"
FileAction = TypeVar("FileAction", Add, Remove)


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
                raise named_twice(place, first.path, add.path)
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


def named_twice(place: StagedPlace, one: str, other: str) -> UnsupportedFeatureError:
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
