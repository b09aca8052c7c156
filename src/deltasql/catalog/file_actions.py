"""Rows of a file list back to the actions they came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from deltasql.protocol.actions import Add, DeletionVector, Remove
from deltasql.protocol.codec import from_json_object

if TYPE_CHECKING:
    import pyarrow as pa

ACTION_COLUMNS = (
    "path",
    "size",
    "modification_time",
    "partition_values",
    "stats",
    "deletion_vector",
    "tags",
    "base_row_id",
    "default_row_commit_version",
    "clustering_provider",
    "data_change",
    "unknown_fields",
)


def adds_of(files: Iterable[pa.RecordBatch]) -> Iterator[Add]:
    """Yield the adds of a file list that has all of ACTION_COLUMNS, exactly as committed."""
    for batch in files:
        for row in batch.to_pylist():
            yield _add(row)


def remove_of(add: Add, *, data_change: bool = True) -> Remove:
    """Return the remove that ends an add; its time is stamped by the commit."""
    return Remove(
        path=add.path,
        data_change=data_change,
        extended_file_metadata=True,
        partition_values=add.partition_values,
        size=add.size,
        tags=add.tags,
        deletion_vector=add.deletion_vector,
        base_row_id=add.base_row_id,
        default_row_commit_version=add.default_row_commit_version,
    )


def _add(row: dict[str, Any]) -> Add:
    return Add(
        path=row["path"],
        size=row["size"],
        modification_time=row["modification_time"],
        partition_values=msgspec.json.decode(row["partition_values"]),
        data_change=row["data_change"],
        stats=row["stats"],
        tags=_json(row["tags"]),
        deletion_vector=vector_of(row["deletion_vector"]),
        base_row_id=row["base_row_id"],
        default_row_commit_version=row["default_row_commit_version"],
        clustering_provider=row["clustering_provider"],
        extra=_json(row["unknown_fields"]),
    )


def _json(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)


def vector_of(text: str | None) -> DeletionVector | None:
    """Return a deletion vector from its JSON; fields that we do not know are kept.

    Raises:
        MalformedActionError, msgspec.MsgspecError: it is none.
    """
    if not text:
        return None
    holder = {"path": "-", "dataChange": True, "deletionVector": msgspec.json.decode(text)}
    action = from_json_object({"remove": holder})
    assert isinstance(action, Remove)  # noqa: S101 (it is what was just built)
    return action.deletion_vector
