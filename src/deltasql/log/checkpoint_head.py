"""The actions of a checkpoint that are few: everything but its files, or the lines of a V2 JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from deltasql.errors import MalformedActionError
from deltasql.protocol.actions import Action
from deltasql.protocol.arrow_text import plain_value
from deltasql.protocol.codec import decode_commit, from_json_object
from deltasql.storage.port import ObjectStore

HEAD = ("protocol", "metaData", "txn", "domainMetadata")
_LONGEST_LINE = 128 * 1024 * 1024


def head_actions(batch: pa.RecordBatch) -> Iterator[Action]:
    """Yield the actions in columns that each hold one kind.

    Raises:
        MalformedActionError, TypeError: a column holds no such action.
    """
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if not pa.types.is_struct(field.type):
            raise TypeError(f"`{field.name}` has the type {field.type}")
        for row in column.filter(column.is_valid()).to_pylist():
            body: dict[str, Any] = plain_value(row, field.type)
            if body:  # of a struct whose fields are all null nothing is left
                if field.name == "metaData":
                    body.setdefault("format", {})
                yield _action(field.name, body)


def _action(kind: str, body: dict[str, Any]) -> Action:
    try:
        return from_json_object({kind: body})
    except MalformedActionError as error:
        reason = error.message.partition(": ")[2].rstrip(".")
        raise ValueError(reason or f"`{kind}` is not valid") from error


def json_actions(store: ObjectStore, key: str, version: int) -> Iterator[Action]:
    """Yield the actions of a V2 checkpoint in JSON, line by line.

    Raises:
        ValueError: names the line that is not valid.
    """
    with store.open_input(key) as file:
        number = 0
        while line := file.readline(_LONGEST_LINE):
            number += 1
            if len(line) == _LONGEST_LINE:
                raise ValueError(f"line {number} is too long")
            try:
                yield from decode_commit(line, version=version, lenient=True)
            except MalformedActionError as error:
                reason = error.message.partition(": ")[2].rstrip(".")
                raise ValueError(f"line {number}: {reason}") from error
        if not number:
            raise ValueError("it is empty")
