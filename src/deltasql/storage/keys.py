"""What may be a key: the one check that every store applies before it does anything.

A key that passes cannot leave the root of a store by its spelling.
"""

from __future__ import annotations

from deltasql.errors import BadArgumentError, UnsafePathError


def check_key(key: str) -> str:
    """Return the key as it is.

    Raises:
        UnsafePathError: it is absolute, has an empty, `.` or `..` segment, holds a NUL, or is not
            text that UTF-8 can carry.
    """
    if not key:
        raise UnsafePathError("An empty key names no object.")
    if "\0" in key:
        raise UnsafePathError(f"The key {key!r} holds a NUL character.", key=key)
    for segment in key.split("/"):
        if segment in {"", ".", ".."}:
            raise UnsafePathError(
                f"The key {key!r} has the segment {segment!r}, which may lead outside the table.",
                key=key,
            )
    return _encodable(key)


def check_prefix(prefix: str) -> str:
    """Return the prefix of a listing as it is; the empty one means everything."""
    if not prefix:
        return prefix
    check_key(prefix.removesuffix("/"))
    return prefix


def check_folder(prefix: str) -> str:
    """Return the folder as it is: empty for the root, else with a slash at its end.

    Raises:
        BadArgumentError: the slash is missing, so that it might mean half a name.
    """
    if prefix and not prefix.endswith("/"):
        raise BadArgumentError(f"The folder {prefix!r} does not end in a slash.", key=prefix)
    return check_prefix(prefix)


def check_range(key: str, start: int, length: int) -> None:
    """Refuse a range that lies before the object.

    Raises:
        BadArgumentError: start or length is negative.
    """
    if start < 0 or length < 0:
        raise BadArgumentError(
            f"A range of {key!r} cannot start at {start} with {length} bytes.", key=key
        )


def bytewise(key: str) -> bytes:
    """Return what keys are sorted by: their UTF-8 bytes."""
    return key.encode()


def _encodable(key: str) -> str:
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise UnsafePathError(f"The key {key!r} is not valid Unicode text.", key=key) from error
    return key
