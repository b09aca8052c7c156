"""Defaults that are plain literals: rows that leave such a column out get its value.

What a default says beyond that (functions, arithmetic, times in the zone of some session) only
Spark can tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from deltasql.errors import BadPredicateError
from deltasql.protocol.arrow_schema import to_arrow_type
from deltasql.protocol.columns import default_expression
from deltasql.protocol.predicate import parse_predicate
from deltasql.protocol.predicate_ast import Comparison, IsNull
from deltasql.protocol.schema import StructField, StructType

# Without a zone their literals mean another moment in each session.
_ZONED = "timestamp"


def literal_default(field: StructField) -> pa.Scalar | None:
    """Return the value of a column's default, or None if there is none that we can tell."""
    text = default_expression(field)
    if text is None or field.type.name == _ZONED or "\\" in text:
        return None
    alone = StructField("value", field.type)
    try:
        # a comparison brings a literal into the domain of the column's type, exactly or not at all
        found = parse_predicate(f"value <=> {text}", StructType((alone,)))
    except BadPredicateError:
        return None
    target = to_arrow_type(field.type)
    match found:
        case Comparison(operator="<=>", value=value):
            return pa.scalar(value, target)
        case IsNull():
            return pa.scalar(None, target)
    return None


def missing_defaults(schema: StructType, provided: Iterable[str]) -> dict[str, pa.Scalar]:
    """Return the defaults of the columns that the rows leave out, where we can tell them."""
    present = {name.lower() for name in provided}
    left_out = [field for field in schema.fields if field.name.lower() not in present]
    found = {field.name: literal_default(field) for field in left_out}
    return {name: value for name, value in found.items() if value is not None}


def filled(batch: pa.RecordBatch, defaults: Mapping[str, pa.Scalar]) -> pa.RecordBatch:
    """Return the rows with the columns that they left out."""
    for name, value in defaults.items():
        batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
    return batch
