"""Which objects of a store a file's row refers to: its data file and its deletion vector's."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress

from deltasql.catalog.file_actions import vector_of
from deltasql.errors import CorruptDataError, UnsafePathError
from deltasql.protocol.actions import DeletionVector
from deltasql.protocol.z85 import decode_z85
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
