"""Pure: which filters mean to Spark what they mean to SQL; by others, SQL does not skip files.

Spark fills the texts of a char(n) up with blanks when it reads and compares them, a collation may
take capital letters for small ones, and a partition of NaN is greater than any number. NaN inside
of files is another matter: Spark's own reader, as Delta's, skips by bounds that do not know of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import tzinfo

from deltasql.catalog.snapshots import Snapshot
from deltasql.protocol.columns import find_field, mapping_mode
from deltasql.protocol.predicate import And, Predicate, columns_of
from deltasql.protocol.predicate_ast import Column, ColumnComparison, Comparison, Not, Or
from deltasql.protocol.predicate_parse import UnderstoodFilter, parse_understood
from deltasql.protocol.schema import StructField, StructType
from deltasql.protocol.text_limits import TYPE_TEXT
from deltasql.protocol.values import FLOATS

_COLLATIONS = "__COLLATIONS"
_CHAR = re.compile(r"(?<!var)char\(")


def compares_otherwise(schema: StructType, path: tuple[str, ...]) -> bool:
    """Tell whether Spark has its own way with the texts of a column."""
    fields = list(_along(schema, path))
    texts = [str(field.metadata.get(TYPE_TEXT, "")) for field in fields]
    return any(_COLLATIONS in field.metadata for field in fields) or any(map(_CHAR.search, texts))


def _along(schema: StructType, path: tuple[str, ...]) -> Iterator[StructField]:
    struct = schema
    for name in path:
        field = find_field(struct, name)
        if field is None:
            return
        yield field
        if not isinstance(field.type, StructType):
            return
        struct = field.type


def has_odd_texts(predicate: Predicate, schema: StructType) -> bool:
    """Tell whether a filter names a column with whose texts Spark has its own way."""
    return any(compares_otherwise(schema, column.path) for column in columns_of(predicate))


def is_sound(predicate: Predicate, schema: StructType, partitions: Sequence[str]) -> bool:
    """Tell whether every row that Spark keeps is one that SQL would keep."""
    return not has_odd_texts(predicate, schema) and not _is_met_by_nan(predicate, partitions)


def _is_met_by_nan(predicate: Predicate, partitions: Sequence[str]) -> bool:
    match predicate:
        case Comparison(operator=operator, column=column):
            return operator in {">", ">="} and _may_be_nan(column, partitions)
        case ColumnComparison(left=left, right=right):
            return _may_be_nan(left, partitions) or _may_be_nan(right, partitions)
        case Not(part=part):
            return _is_met_by_nan(part, partitions)
        case And(parts=parts) | Or(parts=parts):
            return any(_is_met_by_nan(part, partitions) for part in parts)
    return False


def _may_be_nan(column: Column, partitions: Sequence[str]) -> bool:
    return column.type.name in FLOATS and column.path[0] in partitions


def understood(snapshot: Snapshot, where: str | None, zone: tzinfo) -> UnderstoodFilter:
    """Return what SQL understands of a filter that Spark applies."""
    if where is None:
        return UnderstoodFilter(None, is_whole=True)
    mode = mapping_mode(snapshot.metadata.configuration)
    return parse_understood(where, snapshot.schema, mode, zone)


def sound_part(
    predicate: Predicate | None, schema: StructType, partitions: Sequence[str]
) -> Predicate | None:
    """Return the part of a filter of Spark's by which SQL may skip files."""
    if predicate is None or is_sound(predicate, schema, partitions):
        return predicate
    parts = predicate.parts if isinstance(predicate, And) else ()
    found = [sound_part(part, schema, partitions) for part in parts]
    kept = tuple(part for part in found if part is not None)
    return And(kept) if kept else None
