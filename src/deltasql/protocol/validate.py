"""May these actions be one commit? The letter of the protocol, and our published JSON schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from deltasql.errors import InvalidCommitError, MalformedActionError
from deltasql.protocol.actions import (
    Action,
    Add,
    Cdc,
    CheckpointMetadata,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Sidecar,
    Txn,
)
from deltasql.protocol.features import check_protocol
from deltasql.protocol.identity import file_key


def check_commit(actions: Sequence[Action], *, partition_columns: Iterable[str] | None) -> None:
    """Refuse actions that contradict each other or would make the table unreadable.

    `partition_columns` are the physical names the table has after the commit, or None to leave
    partition values alone.

    Raises:
        InvalidCommitError: says which action and why.
    """
    for action in actions:
        reason = _check_action(action)
        if reason:
            raise InvalidCommitError(f"The commit cannot be made: {reason}.")
    _check_unique(actions)
    if partition_columns is not None:
        _check_partitions(actions, frozenset(partition_columns))


def _check_action(action: Action) -> str | None:  # noqa: PLR0911 (one reason per return)
    match action:
        case CheckpointMetadata() | Sidecar():
            return f"`{action.kind}` belongs into checkpoints only"
        case Protocol():
            return check_protocol(action)
        case Metadata():
            return None if action.id else "`metaData` has no id"
        case Add(path=path, size=size):
            if size < 0:
                return f"the size of {path} is negative"
            return _bad_text(path, "path") or _bad_text(action.stats or "", "stats")
        case Remove(path=path) | Cdc(path=path):
            return _bad_text(path, "path")
        case Txn(app_id=app_id):
            return _bad_text(app_id, "appId")
        case DomainMetadata(domain=domain):
            return _bad_text(domain, "domain")
    return None


def _bad_text(text: str, name: str) -> str | None:
    if "\x00" in text:
        return f"a {name} holds a NUL character"
    return None if text or name == "stats" else f"a {name} is empty"


def _check_unique(actions: Sequence[Action]) -> None:
    adds = Counter(file_key(action) for action in actions if isinstance(action, Add))
    removes = Counter(file_key(action) for action in actions if isinstance(action, Remove))
    names = Counter(
        f"{action.kind} {_subject(action)}".strip()
        for action in actions
        if isinstance(action, Metadata | Protocol | CommitInfo | Txn | DomainMetadata)
    )
    for counted, what in ((adds, "add"), (removes, "remove")):
        twice = next((key for key, count in counted.items() if count > 1), None)
        if twice is not None:
            raise InvalidCommitError(f"The commit cannot be made: two {what}s of {twice[0]}.")
    both = next((key for key in adds if key in removes), None)
    if both is not None:
        raise InvalidCommitError(
            f"The commit cannot be made: {both[0]} is added and removed in one commit."
        )
    twice_named = next((name for name, count in names.items() if count > 1), None)
    if twice_named is not None:
        raise InvalidCommitError(f"The commit cannot be made: two actions {twice_named}.")


def _subject(action: Action) -> str:
    match action:
        case Txn(app_id=name) | DomainMetadata(domain=name):
            return name
    return ""


def _check_partitions(actions: Sequence[Action], columns: frozenset[str]) -> None:
    for action in actions:
        if not isinstance(action, Add | Cdc):
            continue
        given = frozenset(action.partition_values)
        if given != columns:
            raise InvalidCommitError(
                f"The commit cannot be made: {action.path} has values for the partition columns "
                f"{sorted(given)}, the table has {sorted(columns)}."
            )


def validate_payload(payload: bytes, *, version: int) -> None:
    """Check a commit's bytes, line by line, against the JSON schema published in docs/reference.

    Raises:
        MalformedActionError: names the version, the line and the place in it.
    """
    validator = _validator()
    for number, raw in enumerate(payload.split(b"\n"), start=1):
        if not raw:
            continue
        error = next(validator.iter_errors(_parse(raw, version, number)), None)
        if error is not None:
            place = "/".join(str(step) for step in error.instance_path)
            raise MalformedActionError(
                f"The commit breaks the schema at version {version}, line {number}"
                f"{', ' + place if place else ''}: {error.message}.",
                version=version,
                line=number,
            )


def commit_schema() -> dict[str, Any]:
    """Return our JSON schema of one line of a commit."""
    text = (files("deltasql.protocol") / "commit.schema.json").read_bytes()
    schema: dict[str, Any] = msgspec.json.decode(text)
    return schema


@cache
def _validator() -> Any:
    import jsonschema_rs  # noqa: PLC0415 (a tenth of a second, only for who validates)

    return jsonschema_rs.validator_for(commit_schema())


def _parse(raw: bytes, version: int, number: int) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise MalformedActionError(
            f"The commit is not valid at version {version}, line {number}: {error}.",
            version=version,
            line=number,
        ) from error
