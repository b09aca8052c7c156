"""count, min and max from what the log tells of files, only where that is exact.

Rows are counted less those that vectors delete. A least or greatest value is taken from statistics
of whole numbers, dates and short decimals, or from partition values: texts in statistics were cut,
times rounded, decimals printed by way of a double, and NaN is not told. A file with a vector has
bounds that its remaining rows need not reach.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Literal, TypeAlias, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.protocol.columns import Leaf, MappingMode, find_column
from deltasql.protocol.predicate import Predicate, columns_of
from deltasql.protocol.predicate_match import answers, partition_facts
from deltasql.protocol.schema import Decimal, StructType
from deltasql.protocol.stats import column_bounds, null_count, parse_stats
from deltasql.protocol.values import INTEGER_BITS, Value, parse_partition_value, to_scale

Kind: TypeAlias = Literal["count", "min", "max"]
# What of the files a total needs.
COLUMNS = ("num_records", "deletion_vector", "stats", "partition_values")
_CALL = re.compile(r"\s*(count|min|max)\s*\(\s*(.*?)\s*\)\s*", re.IGNORECASE)
_EXACT_DIGITS = 15
_EPOCH = date(1970, 1, 1)
_DICTS = msgspec.json.Decoder(dict[str, str | None])
_DELETED = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`count(*)`, `min(column)` or `max(column)`."""

    kind: Kind
    column: Leaf | None = None


def parse_aggregate(text: str, schema: StructType, mode: MappingMode = "none") -> Aggregate | None:
    """Return what a text asks for; None if it is no count(*), min or max of a column.

    Raises:
        SchemaError: there is no such column.
    """
    found = _CALL.fullmatch(text)
    if found is None:
        return None
    kind, inner = cast("Kind", found[1].lower()), found[2]
    if kind == "count":
        return Aggregate(kind) if inner in {"*", "1"} else None
    if not re.fullmatch(r"(`[^`]+`|\w+)(\.(`[^`]+`|\w+))*", inner):
        return None
    names = tuple(one.strip("`") for one in re.findall(r"`[^`]+`|\w+", inner))
    return Aggregate(kind, find_column(schema, names, mode))


@dataclass(frozen=True, slots=True)
class Total:
    """What was asked for, exactly; None where there is no value at all."""

    value: Any


def exact_total(files: pa.Table, wanted: Aggregate, partitions: Iterable[str]) -> Total | None:
    """Return an aggregate over all rows of the files; None if it is not certain.

    `files` has COLUMNS, `partitions` are the physical names of the partition columns.
    """
    column = wanted.column
    if column is None:
        rows = exact_rows(files)
        return None if rows is None else Total(rows)
    if column.physical[0] in set(partitions):
        found = _partition_values(files["partition_values"], column)
    else:
        found = _bounds(files, column, wanted.kind)
    if found is None:
        return None
    choose: Any = min if wanted.kind == "min" else max
    return Total(_python(choose(found), column) if found else None)


def exact_rows(files: pa.Table) -> int | None:
    """Return how many rows the files have together; None if one does not tell."""
    if files["num_records"].null_count:
        return None
    told = pc.drop_null(files["deletion_vector"])
    deleted = [_DELETED.decode(text).get("cardinality") for text in told.to_pylist()]
    if not all(type(count) is int and count >= 0 for count in deleted):
        return None
    return int(pc.sum(files["num_records"]).as_py() or 0) - sum(cast("list[int]", deleted))


def chooses_whole_files(files: pa.Table, predicate: Predicate | None, names: Iterable[str]) -> bool:
    """Tell whether a filter surely keeps every row of the files, by their partition values."""
    if predicate is None:
        return True
    partitions = set(names)
    if any(column.physical[0] not in partitions for column in columns_of(predicate)):
        return False
    values = (_values(text) for text in pc.unique(files["partition_values"]).to_pylist())
    return all(_answers(predicate, each) == {True} for each in values)


def _answers(predicate: Predicate, values: Mapping[str, str | None]) -> frozenset[bool | None]:
    return answers(predicate, lambda c: partition_facts(c, values.get(c.physical[0])))


def _is_exact(column: Leaf) -> bool:
    kind = column.type
    if isinstance(kind, Decimal):
        return kind.precision <= _EXACT_DIGITS
    return kind.name in INTEGER_BITS or kind.name == "date"


def _partition_values(texts: pa.ChunkedArray, column: Leaf) -> list[Value] | None:
    if not _is_exact(column) and column.type.name != "string":
        return None
    found: list[Value] = []
    for text in pc.unique(texts).to_pylist():
        raw = _values(text).get(column.physical[0])
        if not raw:
            continue
        value = raw if column.type.name == "string" else parse_partition_value(raw, column.type)
        if value is None:
            return None
        found.append(value)
    return found


def _values(text: str | None) -> Mapping[str, str | None]:
    return _DICTS.decode(text) if text else {}


def _bounds(files: pa.Table, column: Leaf, kind: Kind) -> list[Value] | None:
    if not _is_exact(column) or files["deletion_vector"].null_count < files.num_rows:
        return None
    found: list[Value] = []
    for text in files["stats"].to_pylist():
        stats = parse_stats(text)
        if stats is None or not stats.tight_bounds or stats.num_records is None:
            return None
        if stats.num_records == 0 or null_count(stats, column) == stats.num_records:
            continue
        low, high = column_bounds(stats, column)
        if low is None or high is None:
            return None
        found.append(low if kind == "min" else high)
    return found


def _python(value: Value, column: Leaf) -> Any:
    if column.type.name == "date":
        return _EPOCH + timedelta(days=cast("int", value))
    if isinstance(column.type, Decimal):
        return to_scale(cast("Any", value), column.type)
    return value
