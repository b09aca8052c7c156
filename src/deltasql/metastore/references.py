"""Objects that rows refer to, and tables whose locations overlap.

A shallow clone names files by their absolute paths; a table whose folder holds another's may name
files in there by relative ones.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from deltasql.database.port import BulkTransaction, DbTransaction
from deltasql.errors import CorruptDataError, UnsafePathError
from deltasql.metastore.snapshot.file_list import vector_of
from deltasql.protocol.actions import DeletionVector
from deltasql.protocol.values import decode_z85
from deltasql.storage.location import parse_location
from deltasql.storage.paths import AbsoluteObject, encode_path, resolve_path

_UUID_CHARS = 20


def vector_path(vector: DeletionVector) -> str | None:
    """Return the path of the vector's file as a log's path, or None if it stands in the log.

    Raises:
        CorruptDataError: the log's entry is malformed.
        UnsafePathError: it leads outside the table.
    """
    text = vector.path_or_inline_dv
    match vector.storage_type:
        case "i":
            return None
        case "p":
            return text
        case "u" if len(text) >= _UUID_CHARS:
            prefix, code = text[:-_UUID_CHARS], text[-_UUID_CHARS:]
            try:
                name = f"deletion_vector_{uuid.UUID(bytes=decode_z85(code)[:16])}.bin"
            except ValueError as error:
                raise damaged_vector(vector, "its text is not Z85") from error
            # This one name of the log is not percent-encoded.
            return encode_path(f"{prefix}/{name}" if prefix else name)
    raise damaged_vector(vector, f"its storage type {vector.storage_type!r} is not known")


def damaged_vector(vector: DeletionVector, why: str) -> CorruptDataError:
    """Return the error of a vector that cannot be used."""
    name = vector.id if vector.storage_type != "i" else "in the log"
    return CorruptDataError(f"The deletion vector {name} cannot be used: {why}.", vector=vector.id)


def is_absolute(path: str) -> bool:
    """Tell whether a log's path names a place by itself, wherever its table lies."""
    return path.startswith("/") or ":/" in path


def paths_of(path: str, vector: DeletionVector | str | None) -> Iterator[str]:
    """Yield the paths of a row's objects as a log spells them; a vector may come as its JSON.

    A vector that nobody can find refers to nothing: whoever reads it is told why.
    """
    yield path
    if isinstance(vector, str):
        vector = vector_of(vector)
    with suppress(CorruptDataError, UnsafePathError):
        if vector is not None and (found := vector_path(vector)) is not None:
            yield found


def keys_below(roots: Iterable[str], paths: Iterable[str], *, own: bool) -> Iterator[str]:
    """Yield the keys of the paths that lie below one of the spellings of one root.

    With `own` the paths are those of the table at that root, and relative ones count.
    """
    spellings = tuple(roots)
    for path in paths:
        try:
            found = resolve_path(path, allowed_roots=spellings)
        except UnsafePathError:
            continue  # it leads elsewhere
        if own or isinstance(found, AbsoluteObject):
            yield found.key


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table lies, in the spelling it was given and in the one that all spellings share."""

    table_id: str
    location: str
    location_key: str

    def inside(self, other: Place) -> str | None:
        """Return this place's path below another's, or None where it is not below it."""
        above, below = parse_location(other.location_key), parse_location(self.location_key)
        if not above.holds(below) or below.holds(above):
            return None
        return below.path.removeprefix(above.path).strip("/")


def own_keys(place: Place, files: Iterable[tuple[str, str | None]]) -> Iterator[str]:
    """Yield the keys of a table's own files, given as paths and vectors."""
    for path, vector in files:
        yield from keys_below(_roots(place), paths_of(path, vector), own=True)


def neighbours_keys(tx: DbTransaction, place: Place) -> Iterator[str]:
    """Yield the keys in this place that other tables of the catalog refer to."""
    for path, vector in tx.fetch_all("absolute_paths", table_id=place.table_id):
        yield from keys_below(_roots(place), paths_of(path, vector), own=False)
    for other in other_places(tx, place):
        folder = place.inside(other)
        if folder is not None:
            files = tx.fetch_all("all_paths", table_id=other.table_id)
            for key in own_keys(other, files):
                if key.startswith(f"{folder}/"):
                    yield key.removeprefix(f"{folder}/")


def nested_folders(tx: DbTransaction, place: Place) -> list[str]:
    """Return the folders in this place that belong to other tables of the catalog."""
    found = (other.inside(place) for other in other_places(tx, place))
    return [folder for folder in found if folder is not None]


def other_places(tx: DbTransaction | BulkTransaction, place: Place) -> list[Place]:
    """Return where the catalog's other tables lie."""
    return _places(tx.fetch_all("table_places", table_id=place.table_id))


def markable_places(tx: DbTransaction | BulkTransaction, place: Place) -> list[Place]:
    """Return where vacuum has marked objects, or may: in other tables, and in dropped ones."""
    return _places(tx.fetch_all("markable_places", table_id=place.table_id))


def purged_places(tx: DbTransaction | BulkTransaction) -> list[Place]:
    """Return where purged tables lay and no table of the catalog lies now."""
    return _places(tx.fetch_all("purged_places"))


def _places(rows: list[tuple[Any, ...]]) -> list[Place]:
    return [Place(str(table_id), location, key) for table_id, location, key in rows]


def _roots(place: Place) -> tuple[str, ...]:
    return tuple(dict.fromkeys((place.location, place.location_key)))
