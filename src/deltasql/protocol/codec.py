"""Actions to bytes and back: the canonical form v1, its digest, and the strict decoder.

All knowledge of order lives here. Equal lists of actions give equal bytes, in whatever order they
come; decoding canonical bytes and encoding them again is the identity.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec

from deltasql.errors import InvalidCommitError, MalformedActionError
from deltasql.protocol.actions import (
    ACTION_TYPES,
    EXTRA_KEY,
    Action,
    Add,
    Cdc,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Format,
    Protocol,
    Remove,
    Txn,
    UnknownAction,
)

_encoder = msgspec.json.Encoder(order="deterministic")
_sorted_encoder = msgspec.json.Encoder(order="sorted")
_BY_KIND = {kind.kind: kind for kind in ACTION_TYPES}  # type: ignore[attr-defined]
_RANK = {kind: rank for rank, kind in enumerate(_BY_KIND)}
_LAST = len(_RANK)
_DEEPEST = 100

# A value takes some ten times the room of its text: a line may be long, or of many values.
LONG_LINE = 8 * 1024 * 1024

# A commit of so many bytes is not held twice.
LARGE = 64 * 1024 * 1024
_MOST_VALUES = 2_000_000
_GIVEN = "Nothing was committed; correct the action."
_NO_COLUMNS = '{"type":"struct","fields":[]}'
_NESTED: dict[str, type[msgspec.Struct]] = {"deletionVector": DeletionVector, "format": Format}

_Line = msgspec.defstruct(
    "_Line",
    [
        (name, kind | None, msgspec.field(default=None, name=name))
        for name, kind in _BY_KIND.items()
    ],
    forbid_unknown_fields=True,
    gc=False,
)
_STRICT = msgspec.json.Decoder(_Line)
_FILE_STARTS = (b'{"add":', b'{"remove":')


class _LineError(ValueError):
    """A line cannot be understood; the message is the reason."""


def serialize_actions(actions: Iterable[Action]) -> bytes:
    """Return the canonical bytes of a commit: one action per line, every line ended by a newline.

    Raises:
        InvalidCommitError: an action holds a value that JSON cannot carry.
    """
    try:
        return b"".join(line + b"\n" for *_, line in sorted(map(_ranked_line, actions)))
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise InvalidCommitError(
            f"An action cannot be written as JSON: {_reason(error)}."
        ) from error


def digest(payload: bytes) -> str:
    """Return the SHA-256 of a commit's bytes, in hex."""
    return hashlib.sha256(payload).hexdigest()


def decode_commit(
    payload: bytes, *, version: int | None, lenient: bool = False, schemaless: bool = False
) -> list[Action]:
    """Return the actions of a commit file in the order of its lines.

    Blank lines are passed over. Unknown actions and fields are kept, what is unknown beside an
    action is not. With `schemaless`, a table
    may have no schema yet (it has no columns then), as some writers create it. With `lenient`, so
    it may, numbers may be spelled as strings or whole floats, and lines without an action are
    passed over.

    Raises:
        MalformedActionError: names the version, the line and the reason.
    """
    return list(iter_commit(payload, version=version, lenient=lenient, schemaless=schemaless))


def iter_commit(
    payload: bytes, *, version: int | None, lenient: bool = False, schemaless: bool = False
) -> Iterator[Action]:
    """Yield the actions of a commit file one by one; see `decode_commit`."""
    offset = 0
    for number, raw in enumerate(_lines(payload), start=1):
        if raw and not raw.isspace():
            try:
                action = _decode_line(raw, lenient=lenient, schemaless=schemaless or lenient)
            except _LineError as error:
                _refuse(error, version, number, offset)
            if action is not None:
                yield action
        offset += len(raw) + 1


def _lines(payload: bytes) -> Iterable[bytes]:
    """Return the lines of a commit; of a very large one, not all at a time."""
    return payload.split(b"\n") if len(payload) < LARGE else _one_by_one(payload)


def _one_by_one(payload: bytes) -> Iterator[bytes]:
    start = 0
    while (end := payload.find(b"\n", start)) >= 0:
        yield payload[start:end]
        start = end + 1
    yield payload[start:]


def to_json_object(action: Action) -> dict[str, Any]:
    """Return an action as plain JSON values inside its envelope, unknown fields included."""
    if isinstance(action, UnknownAction):
        return {action.kind: action.body}
    return {action.kind: _plain(action)}


def from_json_object(line: Mapping[str, Any]) -> Action:
    """Return the action in an envelope of plain JSON values.

    Raises:
        MalformedActionError: the envelope or the action in it is not valid.
    """
    if len(line) > 1:  # in a log it would be passed over; here it is a mistake
        raise MalformedActionError(
            f"The action is not valid: one was expected, found {', '.join(map(str, line))}.",
            hint=_GIVEN,
        )
    try:
        _check_free(line)
        raw = msgspec.json.encode(line)
        action = _decode_line(raw, lenient=False, schemaless=False)
    except _LineError as error:
        raise MalformedActionError(
            f"The action is not valid: {error}.", hint=_GIVEN
        ) from error.__cause__
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise MalformedActionError(
            f"The action is not valid: {_reason(error)}.", hint=_GIVEN
        ) from error
    assert action is not None  # noqa: S101 (only a lenient decoder passes a line over)
    return action


def _ranked_line(action: Action) -> tuple[int, str, str, bytes]:
    """Return a line after what it is sorted by; the line itself decides between equals."""
    line, rank = _encode_line(action), _RANK.get(action.kind, _LAST)
    match action:
        case Add(path=path) | Remove(path=path):
            return rank, path, action.dv_id, line
        case Cdc(path=name) | DomainMetadata(domain=name) | Txn(app_id=name):
            return rank, name, "", line
    return rank, action.kind, "", line


def _encode_line(action: Action) -> bytes:
    if isinstance(action, UnknownAction):
        _check_free(action.body)
        return _sorted_encoder.encode({action.kind: action.body})
    if isinstance(action, Protocol):
        action = _with_sorted_features(action)
    if has_extra(action):
        plain = _plain(action)
        _check_free(plain)
        return _sorted_encoder.encode({action.kind: plain})
    if isinstance(action, CommitInfo):
        _check_free(msgspec.structs.astuple(action))
    return _encoder.encode({action.kind: action})


def _check_free(value: Any, depth: int = 0) -> None:
    """Refuse values of free form that would not come back as they are.

    JSON has no NaN (it would be written as null), and how deep a parser can go depends on the
    stack it is called from; a limit of our own gives the same answer everywhere.
    """
    kind = type(value)
    if kind is dict or kind is list or kind is tuple:
        if depth > _DEEPEST:
            raise RecursionError
        for each in value.values() if kind is dict else value:
            kind = type(each)
            if kind is dict or kind is list or kind is tuple:
                _check_free(each, depth + 1)
            elif kind is float and not math.isfinite(each):
                raise ValueError("a number is not finite")
    elif kind is float and not math.isfinite(value):
        raise ValueError("a number is not finite")


def _with_sorted_features(protocol: Protocol) -> Protocol:
    def ordered(features: list[str] | None) -> list[str] | None:
        return None if features is None else sorted(set(features))

    return msgspec.structs.replace(
        protocol,
        reader_features=ordered(protocol.reader_features),
        writer_features=ordered(protocol.writer_features),
    )


def has_extra(value: Any) -> bool:
    """Tell whether an action has fields that are not the protocol's; they take the long way."""
    if value.extra is not None:
        return True
    kind = type(value)
    if kind is Add or kind is Remove:
        nested = value.deletion_vector
    else:
        nested = getattr(value, "format", None)
    return nested is not None and nested.extra is not None


def _plain(value: msgspec.Struct) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for field in msgspec.structs.fields(value):
        item = getattr(value, field.name)
        if field.encode_name == EXTRA_KEY:
            plain.update((key, each) for key, each in (item or {}).items() if each is not None)
        elif isinstance(item, msgspec.Struct):
            plain[field.encode_name] = _plain(item)
        elif item is not None:
            plain[field.encode_name] = item
    return plain


def _decode_line(raw: bytes, *, lenient: bool, schemaless: bool) -> Action | None:
    if len(raw) > LONG_LINE and raw.count(b",") + raw.count(b"[") > _MOST_VALUES:
        raise _LineError(f"the line is too long to hold more than {_MOST_VALUES} values")
    try:
        action = _decode_one(raw)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return _decode_slowly(raw, lenient=lenient, schemaless=schemaless)
    if not has_extra(action):
        return action
    return _decode_slowly(raw, lenient=lenient, schemaless=schemaless)


def _decode_one(raw: bytes) -> Action:
    found = [action for action in msgspec.structs.astuple(_STRICT.decode(raw)) if action]
    if len(found) != 1:
        raise ValueError("not one action")
    action: Action = found[0]
    if isinstance(action, CommitInfo):
        _check_free(msgspec.structs.astuple(action))
    return action


def _decode_slowly(raw: bytes, *, lenient: bool, schemaless: bool) -> Action | None:
    """Decode a line that is not plain: unknown fields, unknown actions, or an error to explain."""
    try:
        envelope = msgspec.json.decode(raw)
        _check_free(envelope)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise _LineError(_reason(error)) from error
    if not isinstance(envelope, dict):
        raise _LineError("the line is not a JSON object")
    named = {kind: body for kind, body in envelope.items() if body is not None}
    if not named and lenient:
        return None
    # the protocol ignores what it does not know, beside an action too
    known = {kind: body for kind, body in named.items() if kind in _BY_KIND} or named
    if not known or (len(known) > 1 and known is not named):
        found = ", ".join(sorted(known)) or "none"
        raise _LineError(f"a line must hold exactly one action, found {found}")
    kind, body = next(iter(known.items()))
    if kind not in _BY_KIND:
        return UnknownAction(kind=kind, body=body)
    if schemaless and kind == "metaData" and isinstance(body, dict):
        body = {**body, "schemaString": _NO_COLUMNS} if _lacks_schema(body) else body
    try:
        action: Action = _build_in_doubt(kind, body, lenient=lenient)
    except (msgspec.MsgspecError, RecursionError, ValueError, TypeError) as error:
        raise _LineError(f"`{kind}`: {_reason(error)}") from error
    return action


def _lacks_schema(body: Mapping[str, Any]) -> bool:
    return body.get("schemaString") is None


def _build_in_doubt(kind: str, body: Any, *, lenient: bool) -> Any:
    """Build an action; leniently only what is not right as it stands."""
    try:
        return _build(_BY_KIND[kind], body, strict=True)
    except (msgspec.MsgspecError, ValueError, TypeError):
        if not lenient:
            raise
    return _build(_BY_KIND[kind], body, strict=False)


def _build(kind: Any, body: Any, *, strict: bool) -> Any:
    if not isinstance(body, dict):
        raise msgspec.ValidationError(f"Expected `object`, got `{type(body).__name__}`")
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    known: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in body.items():
        if key == EXTRA_KEY or key not in fields:
            extra[key] = value
        else:
            known[key] = value
    nested = {
        key: _build(_NESTED[key], known.pop(key), strict=strict)
        for key in _NESTED
        if key in fields and known.get(key) is not None
    }
    if not strict:
        known = {key: _whole(value) for key, value in known.items()}
    placeholders = {key: msgspec.to_builtins(value) for key, value in nested.items()}
    for value in placeholders.values():
        value.pop(EXTRA_KEY, None)
    action = msgspec.convert({**known, **placeholders}, kind, strict=strict)
    replaced = {fields[key].name: value for key, value in nested.items()}
    return msgspec.structs.replace(action, **replaced, extra=extra or None)


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "the JSON is nested too deeply"
    if isinstance(error, UnicodeError):
        return "a text is not valid UTF-8"
    return str(error).rstrip(".")


def _refuse(error: _LineError, version: int | None, number: int, offset: int) -> NoReturn:
    line = f"line {number} (from byte {offset})"
    where = line if version is None else f"version {version}, {line}"
    raise MalformedActionError(
        f"The commit is not valid at {where}: {error}.",
        hint="The commit file is damaged or was not written by a Delta writer; look at that line.",
        version=version,
        line=number,
        offset=offset,
    ) from error.__cause__


def dump_values(values: Mapping[str, Any]) -> str:
    """Return a small map as canonical JSON text, for columns that hold one."""
    return _sorted_encoder.encode(values).decode()


def operation_strings(values: Mapping[str, Any] | None) -> dict[str, str]:
    """Return operation parameters or metrics with string values only, as every reader accepts."""
    return {
        str(key): value if isinstance(value, str) else _sorted_encoder.encode(value).decode()
        for key, value in (values or {}).items()
    }


class _FileLine(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A line of one file; they are decoded many at a time."""

    add: Add | None = None
    remove: Remove | None = None


_FILES = msgspec.json.Decoder(_FileLine)


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
