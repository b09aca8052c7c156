"""Row groups that cannot hold a matching row, told by the file's footer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from deltasql.data.file_columns import FileColumns
from deltasql.data.footer import summarize_group
from deltasql.protocol.arrow_schema import to_arrow_type
from deltasql.protocol.predicate import Column, Predicate
from deltasql.protocol.predicate_match import Facts, can_be_true, partition_facts
from deltasql.protocol.values import FLOATS


def may_group_match(
    predicate: Predicate,
    group: Any,
    columns: FileColumns,
    partition_values: Mapping[str, str | None],
) -> bool:
    """Tell whether a row group may hold a row that the filter keeps; false means surely none."""

    def known(column: Column) -> Facts:
        name = column.physical[0]
        if len(column.physical) == 1 and name in partition_values:
            return partition_facts(column, partition_values[name])
        return _facts(column, group, columns)

    return group.num_rows > 0 and can_be_true(predicate, known)


def _facts(column: Column, group: Any, columns: FileColumns) -> Facts:
    is_float = column.type.name in FLOATS
    place = _place(column, columns)
    if place is None:
        return Facts(may_be_nan=is_float)
    summary = summarize_group(group, column, range(place, place + 1))
    return Facts(
        summary.low,
        summary.high,
        summary.nulls != 0,
        summary.nulls is None or summary.nulls != group.num_rows,
        is_float,
    )


def _place(column: Column, columns: FileColumns) -> int | None:
    """Return the Parquet column of a plain column that has the table's own type in this file."""
    if len(column.path) != 1:
        return None
    field = next((one for one in columns.schema.fields if one.name == column.path[0]), None)
    fields = list(columns.file_schema)
    at = None if field is None else columns.shape.find(fields, field)
    if at is None or fields[at].type != to_arrow_type(column.type):
        return None
    if pa.types.is_nested(fields[at].type):
        return None
    return sum(_width(one.type) for one in fields[:at])


def _width(kind: pa.DataType) -> int:
    """Return how many Parquet columns an Arrow type takes up."""
    if pa.types.is_nested(kind):
        return sum(_width(kind.field(position).type) for position in range(kind.num_fields))
    return 1
