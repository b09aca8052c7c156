"""The files of a checkpoint in SQL's columns: `add` and `remove` structs turned by whole columns.

The same file gives the same row as its action does when it is committed. A struct whose fields are
all null holds no action (writers with required columns make such); one without a path but with
anything else is damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.protocol.actions import Add
from deltasql.protocol.arrow_text import as_bool, as_long, as_text
from deltasql.protocol.checkpoint_stats import stats_texts
from deltasql.protocol.checkpoint_values import (
    extra_texts,
    map_texts,
    parsed_partition_texts,
    vector_columns,
)
from deltasql.protocol.file_rows import ADD_SCHEMA, REMOVE_SCHEMA, count_records

# Typed twins of a text: read only where the text is missing.
PARSED = {"stats": "stats_parsed", "partitionValues": "partitionValues_parsed"}

_TEXT, _LONG = pa.string(), pa.int64()
_KNOWN = frozenset(
    [*(field.encode_name for field in msgspec.structs.fields(Add)), *PARSED.values()]
)


def present(found: pa.StructArray, kind: str) -> pa.StructArray:
    """Return the structs that hold an action.

    Raises:
        ValueError: one has no path.
    """
    if "path" not in [field.name for field in found.type]:
        raise ValueError(f"`{kind}` has no column path")
    rows = found.filter(found.is_valid()) if found.null_count else found
    path = rows.field("path")
    if not path.null_count:
        return rows
    without = rows.filter(path.is_null())
    if any(field.null_count < len(without) for field in without.flatten()):
        raise ValueError(f"a row of `{kind}` has no path")
    return rows.filter(path.is_valid())


def lacks_text(adds: pa.StructArray) -> bool:
    """Tell whether an add has no statistics or no partition values as text."""
    names = [field.name for field in adds.type]
    return any(name not in names or adds.field(name).null_count for name in PARSED)


def add_rows(adds: pa.StructArray) -> pa.RecordBatch:
    """Return adds as rows of SQL's file list.

    Raises:
        ValueError, TypeError, pyarrow.ArrowException: a field is missing or not what it must be.
    """
    fields = _Fields(adds)
    stats = fields.text_or_parsed("stats", as_text, stats_texts)
    unknown = {name: column for name, column in fields.columns.items() if name not in _KNOWN}
    return fields.batch(
        ADD_SCHEMA,
        {
            "modification_time": fields.read("modificationTime", as_long),
            "partition_values": fields.text_or_parsed(
                "partitionValues", map_texts, parsed_partition_texts
            ),
            "stats": stats,
            "num_records": pa.array([count_records(text) for text in stats.to_pylist()], _LONG),
            "tags": fields.read("tags", map_texts),
            "clustering_provider": fields.read("clusteringProvider", as_text),
            "data_change": fields.data_change(),
            "unknown_fields": extra_texts(unknown, fields.count),
        },
    )


def remove_rows(removes: pa.StructArray) -> pa.RecordBatch:
    """Return removes as rows of SQL's tombstones.

    Raises:
        ValueError, TypeError, pyarrow.ArrowException: a field is missing or not what it must be.
    """
    fields = _Fields(removes)
    return fields.batch(
        REMOVE_SCHEMA,
        {
            "partition_values": fields.read("partitionValues", map_texts),
            "deletion_timestamp": fields.read("deletionTimestamp", as_long),
            "remove_data_change": fields.data_change(),
            "extended_file_metadata": fields.read("extendedFileMetadata", as_bool),
        },
    )


class _Fields:
    """The fields of adds or removes by name, each read as what it must be."""

    def __init__(self, rows: pa.StructArray) -> None:
        names = [field.name for field in rows.type]
        self.count = len(rows)
        self.columns: dict[str, pa.Array] = dict(zip(names, rows.flatten(), strict=True))

    def read(self, name: str, read: Callable[[pa.Array], pa.Array]) -> pa.Array:
        """Return a field; nulls where the file does not have it."""
        found = self.columns.get(name)
        try:
            return read(pa.nulls(self.count) if found is None else found)
        except (ValueError, TypeError) as error:
            raise ValueError(f"`{name}`: {error}") from error

    def text_or_parsed(
        self,
        name: str,
        read: Callable[[pa.Array], pa.Array],
        spell: Callable[[pa.StructArray], pa.Array],
    ) -> pa.Array:
        """Return a field that is text; where that is missing, its typed twin spelled."""
        texts, parsed = self.read(name, read), self.columns.get(PARSED[name])
        if not texts.null_count or parsed is None or not pa.types.is_struct(parsed.type):
            return texts
        return pc.coalesce(texts, self.read(PARSED[name], spell))

    def data_change(self) -> pa.Array:
        """Return whether rows change: what a checkpoint brings does not, unless it says so."""
        return pc.fill_null(self.read("dataChange", as_bool), pa.scalar(value=False))

    def batch(self, schema: pa.Schema, own: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Return the rows: the columns that adds and removes share, and those given."""
        path = self.read("path", as_text)
        dv_id, vector = vector_columns(self.columns.get("deletionVector"), self.count)
        columns = {
            "path": path,
            "dv_id": dv_id,
            "size": self.read("size", as_long),
            "deletion_vector": vector,
            "base_row_id": self.read("baseRowId", as_long),
            "default_row_commit_version": self.read("defaultRowCommitVersion", as_long),
            **own,
        }
        for field in schema:
            if not field.nullable and columns[field.name].null_count:
                raise ValueError(f"a file has no {field.name}")
        return pa.RecordBatch.from_arrays([columns[field.name] for field in schema], schema=schema)
