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
    file_key,
)
from deltasql.protocol.features import check_new_protocol
from deltasql.protocol.properties import check_changes
from deltasql.protocol.schema.columns import (
    check_mapping,
    check_names,
    check_unique_names,
    find_field,
    mapping_mode,
)
from deltasql.protocol.schema.types import parse_schema

_VECTOR_TYPES = frozenset("uip")


def check_commit(actions: Sequence[Action], *, partition_columns: Iterable[str] | None) -> None:
    """Refuse actions that contradict each other or would make the table unreadable.

    `partition_columns` are the physical names the table has after the commit, or None to leave
    partition values alone.

    Raises:
        InvalidCommitError: says which action and why.
        SchemaError: the schema of a `metaData` is none.
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
        case CommitInfo():
            return _check_info(action)
        case Protocol():
            names = (*(action.reader_features or ()), *(action.writer_features or ()))
            return check_new_protocol(action) or _bad_texts("feature", *names)
        case Metadata():
            return check_metadata(action)
        case Add() | Remove() | Cdc():
            return _check_file(action)
        case Txn(app_id=app_id):
            return _bad_texts("appId", app_id)
        case DomainMetadata(domain=domain, configuration=configuration):
            return _bad_texts("domain", domain) or _nul("configuration", configuration)
    return None


def _check_file(action: Add | Remove | Cdc) -> str | None:
    bad = _bad_texts("path", action.path)
    if bad:
        return bad
    if action.size is not None and action.size < 0:
        return f"the size of {action.path} is negative"
    if isinstance(action, Cdc):
        return f"the change file {action.path} says dataChange" if action.data_change else None
    if isinstance(action, Add):
        bad = _nul("clusteringProvider", action.clustering_provider)
    return bad or _nul("stats", action.stats) or check_vector(action)


def check_vector(action: Add | Remove) -> str | None:
    """Return what is wrong with a file's deletion vector, or None."""
    vector = action.deletion_vector
    if vector is None:
        return None
    if vector.storage_type not in _VECTOR_TYPES:
        return f"the deletion vector of {action.path} has an unknown storage type"
    if vector.cardinality < 0 or vector.size_in_bytes < 0 or (vector.offset or 0) < 0:
        return f"a number in the deletion vector of {action.path} is negative"
    return _bad_texts("pathOrInlineDv", vector.path_or_inline_dv)


def check_metadata(metadata: Metadata) -> str | None:
    """Return what is wrong with a table's definition, or None."""
    if metadata.format.provider != "parquet":
        return "the format of `metaData` is not parquet"
    texts = (metadata.name, metadata.description, metadata.schema_string)
    bad = _bad_texts("table id", metadata.id) or next(
        (bad for text in texts if (bad := _nul("text of `metaData`", text))), None
    )
    if bad:
        return bad
    schema, mode = parse_schema(metadata.schema_string), mapping_mode(metadata.configuration)
    check_unique_names(schema)
    check_mapping(schema, mode)
    gone = next((c for c in metadata.partition_columns if find_field(schema, c) is None), None)
    return None if gone is None else f"the partition column {gone} is not in the schema"


def check_metadata_change(before: Metadata, after: Metadata) -> None:
    """Refuse what a commit would set anew in the metadata and Delta would not take.

    What other writers have left there stays as it is.

    Raises:
        BadArgumentError: a property has no such name or value.
        SchemaError: a new column has no name that Delta takes.
    """
    check_changes(before.configuration, after.configuration)
    if after.schema_string != before.schema_string:
        schema, mode = parse_schema(after.schema_string), mapping_mode(after.configuration)
        check_names(schema, mode, parse_schema(before.schema_string))


def _check_info(info: CommitInfo) -> str | None:
    """Free in form, but what the history tells of it has a form."""
    for name, value in (
        ("operationParameters", info.operation_parameters),
        ("operationMetrics", info.operation_metrics),
    ):
        if value is not None and not isinstance(value, dict):
            return f"`{name}` of `commitInfo` is not an object"
    for name, value in (("userMetadata", info.user_metadata), ("userName", info.user_name)):
        if value is not None and not isinstance(value, str):
            return f"`{name}` of `commitInfo` is not a text"
        if _nul(name, value):
            return _nul(name, value)
    return None


def _bad_texts(name: str, *texts: str) -> str | None:
    if not all(texts):
        return f"a {name} is empty"
    return next((bad for text in texts if (bad := _nul(name, text))), None)


def _nul(name: str, text: str | None) -> str | None:
    """No database keeps a text with a NUL in it."""
    return f"a {name} holds a NUL character" if text and "\x00" in text else None


def _check_unique(actions: Sequence[Action]) -> None:
    if len(actions) <= 1:
        return  # most commits, and counting costs
    adds = Counter(file_key(action) for action in actions if isinstance(action, Add))
    removes = Counter(file_key(action) for action in actions if isinstance(action, Remove))
    names = Counter(
        f"{action.kind} {_subject(action)}".strip()
        for action in actions
        if isinstance(action, Metadata | Protocol | CommitInfo | Txn | DomainMetadata | Cdc)
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
        case Txn(app_id=name) | DomainMetadata(domain=name) | Cdc(path=name):
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
