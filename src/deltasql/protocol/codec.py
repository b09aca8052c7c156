"""Actions to bytes and back: the canonical form v1, its digest, and the strict decoder.

All knowledge of order lives here. Equal lists of actions give equal bytes, in whatever order they
come; decoding canonical bytes and encoding them again is the identity.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
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


def decode_commit(payload: bytes, *, version: int | None, lenient: bool = False) -> list[Action]:
    """Return the actions of a commit file in the order of its lines.

    Blank lines are passed over. Unknown actions and fields are kept. With `lenient`, numbers may
    be spelled as strings or whole floats, a table may have no schema yet (it has no columns then),
    and lines without an action are passed over.

    Raises:
        MalformedActionError: names the version, the line and the reason.
    """
    return list(iter_commit(payload, version=version, lenient=lenient))


def iter_commit(payload: bytes, *, version: int | None, lenient: bool = False) -> Iterator[Action]:
    """Yield the actions of a commit file one by one; see `decode_commit`."""
    number = 0
    for raw in payload.split(b"\n"):
        number += 1
        if not raw or raw.isspace():
            continue
        action = _decode_line(raw, version, number, lenient=lenient)
        if action is not None:
            yield action


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
    try:
        _check_free(line)
        raw = msgspec.json.encode(line)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        _refuse(None, 1, _reason(error), error)
    action = _decode_line(raw, None, 1, lenient=False)
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
    if _has_extra(action):
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
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number is not finite")
    if isinstance(value, dict | list | tuple):
        if depth > _DEEPEST:
            raise RecursionError
        for each in value.values() if isinstance(value, dict) else value:
            _check_free(each, depth + 1)


def _with_sorted_features(protocol: Protocol) -> Protocol:
    def ordered(features: list[str] | None) -> list[str] | None:
        return None if features is None else sorted(set(features))

    return msgspec.structs.replace(
        protocol,
        reader_features=ordered(protocol.reader_features),
        writer_features=ordered(protocol.writer_features),
    )


def _has_extra(value: Any) -> bool:
    if value.extra is not None:
        return True
    nested = getattr(value, "deletion_vector", None) or getattr(value, "format", None)
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


def _decode_line(raw: bytes, version: int | None, number: int, *, lenient: bool) -> Action | None:
    try:
        line = _STRICT.decode(raw)
        found = [action for action in msgspec.structs.astuple(line) if action is not None]
        if found and isinstance(found[0], CommitInfo):
            _check_free(msgspec.structs.astuple(found[0]))
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return _decode_slowly(raw, version, number, lenient=lenient)
    if len(found) == 1 and not _has_extra(found[0]):
        action: Action = found[0]
        return action
    return _decode_slowly(raw, version, number, lenient=lenient)


def _decode_slowly(raw: bytes, version: int | None, number: int, *, lenient: bool) -> Action | None:
    """Decode a line that is not plain: unknown fields, unknown actions, or an error to explain."""
    try:
        envelope = msgspec.json.decode(raw)
        _check_free(envelope)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        _refuse(version, number, _reason(error), error)
    if not isinstance(envelope, dict):
        _refuse(version, number, "the line is not a JSON object")
    named = {kind: body for kind, body in envelope.items() if body is not None}
    if not named and lenient:
        return None
    if len(named) != 1:
        found = ", ".join(sorted(named)) or "none"
        _refuse(version, number, f"a line must hold exactly one action, found {found}")
    kind, body = next(iter(named.items()))
    if kind not in _BY_KIND:
        return UnknownAction(kind=kind, body=body)
    try:
        action: Action = _build_in_doubt(kind, body, lenient=lenient)
    except (msgspec.MsgspecError, RecursionError, ValueError, TypeError) as error:
        _refuse(version, number, f"`{kind}`: {_reason(error)}", error)
    return action


def _build_in_doubt(kind: str, body: Any, *, lenient: bool) -> Any:
    """Build an action; leniently only what is not right as it stands."""
    try:
        return _build(_BY_KIND[kind], body, strict=True)
    except (msgspec.MsgspecError, ValueError, TypeError):
        if not lenient:
            raise
    if kind == "metaData" and isinstance(body, dict) and body.get("schemaString") is None:
        body = {**body, "schemaString": _NO_COLUMNS}
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


def _refuse(
    version: int | None, number: int, reason: str, cause: BaseException | None = None
) -> NoReturn:
    where = f"version {version}, line {number}" if version is not None else f"line {number}"
    raise MalformedActionError(
        f"The commit is not valid at {where}: {reason}.", version=version, line=number
    ) from cause


def dump_values(values: Mapping[str, Any]) -> str:
    """Return a small map as canonical JSON text, for columns that hold one."""
    return _sorted_encoder.encode(values).decode()


def operation_strings(values: Mapping[str, Any] | None) -> dict[str, str]:
    """Return operation parameters or metrics with string values only, as every reader accepts."""
    return {
        str(key): value if isinstance(value, str) else _sorted_encoder.encode(value).decode()
        for key, value in (values or {}).items()
    }
