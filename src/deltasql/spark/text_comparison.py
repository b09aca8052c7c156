"""Texts that Spark compares otherwise than byte by byte: SQL does not skip files by them.

Spark fills the texts of a char(n) up with blanks when it reads and compares them, and a collation
may take capital letters for small ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from deltasql.protocol.columns import find_field
from deltasql.protocol.predicate import And, Predicate, columns_of
from deltasql.protocol.schema import StructField, StructType
from deltasql.protocol.text_limits import TYPE_TEXT

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


def is_sound(predicate: Predicate, schema: StructType) -> bool:
    """Tell whether a filter means to Spark what it means to SQL."""
    return not any(compares_otherwise(schema, column.path) for column in columns_of(predicate))


def sound_part(predicate: Predicate | None, schema: StructType) -> Predicate | None:
    """Return the part of a filter of Spark's by which SQL may skip files."""
    if predicate is None or is_sound(predicate, schema):
        return predicate
    parts = predicate.parts if isinstance(predicate, And) else ()
    kept = tuple(part for part in parts if is_sound(part, schema))
    return And(kept) if kept else None
