"""The actions of a commit with its files apart: nearly all lines of a long log are files."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import msgspec

from deltasql.errors import MalformedActionError
from deltasql.protocol.actions import Action, Add, Remove
from deltasql.protocol.codec import LARGE, LONG_LINE, decode_commit, has_extra


class _FileLine(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A line of one file; they are decoded many at a time."""

    add: Add | None = None
    remove: Remove | None = None


_FILES = msgspec.json.Decoder(_FileLine)
_FILE_STARTS = (b'{"add":', b'{"remove":')


@dataclass(frozen=True, slots=True)
class CommitParts:
    """The actions of a commit, its files apart from the rest."""

    adds: list[Add]
    removes: list[Remove]
    others: list[Action]


def decode_parts(
    payload: bytes, *, version: int | None, lenient: bool = False, schemaless: bool = False
) -> CommitParts:
    """Return what `decode_commit` does, faster for commits of many files.

    Raises:
        MalformedActionError: names the version, the line, the byte and the reason.
    """
    if len(payload) < LARGE:
        found = _many_at_a_time(payload, version, lenient=lenient, schemaless=schemaless)
        if found is not None:
            return found
    actions = decode_commit(payload, version=version, lenient=lenient, schemaless=schemaless)
    return CommitParts(
        [action for action in actions if isinstance(action, Add)],
        [action for action in actions if isinstance(action, Remove)],
        [action for action in actions if not isinstance(action, Add | Remove)],
    )


def _many_at_a_time(
    payload: bytes, version: int | None, *, lenient: bool, schemaless: bool
) -> CommitParts | None:
    """Return the parts of a commit that looks as usual; of another one None."""
    lines = payload.split(b"\n")
    files = [line for line in lines if line.startswith(_FILE_STARTS)]
    try:
        _require_short(files)
        found = _FILES.decode_lines(b"\n".join(files))
    except (msgspec.MsgspecError, RecursionError, ValueError):
        found = []
    adds = [line.add for line in found if line.add is not None and line.remove is None]
    removes = [line.remove for line in found if line.remove is not None and line.add is None]
    plain = len(found) == len(files) == len(adds) + len(removes)
    if plain and not any(map(has_extra, adds)) and not any(map(has_extra, removes)):
        rest = [line for line in lines if not line.startswith(_FILE_STARTS)]
        with suppress(MalformedActionError):  # told below, with its true place
            others = decode_commit(
                b"\n".join(rest), version=version, lenient=lenient, schemaless=schemaless
            )
            # a file's line may be spelled otherwise, with blanks before its name
            if not any(isinstance(action, Add | Remove) for action in others):
                return CommitParts(adds, removes, others)
    return None


def _require_short(lines: list[bytes]) -> None:
    """Leave lines that are long to whoever looks at each."""
    if lines and max(map(len, lines)) > LONG_LINE:
        raise ValueError("a line is long")
