"""Filters over a table: one door to parsing, pruning and exact evaluation.

`parse_predicate` gives a frozen value; `may_match` and `index_ranges` prune files with it, keeping
too much rather than too little; `to_arrow` decides rows exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltasql.protocol.predicate_ast import (
    And,
    Column,
    ColumnComparison,
    Comparison,
    Constant,
    InList,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    columns_of,
)
from deltasql.protocol.predicate_match import may_match, surely_holds
from deltasql.protocol.predicate_parse import parse_predicate
from deltasql.protocol.predicate_ranges import IndexRange, index_ranges, parts_without_range

if TYPE_CHECKING:
    import pyarrow.compute as pc

__all__ = [
    "And",
    "Column",
    "ColumnComparison",
    "Comparison",
    "Constant",
    "InList",
    "IndexRange",
    "IsNull",
    "Like",
    "Not",
    "Or",
    "Predicate",
    "columns_of",
    "index_ranges",
    "may_match",
    "parse_predicate",
    "parts_without_range",
    "surely_holds",
    "to_arrow",
]


def to_arrow(predicate: Predicate) -> pc.Expression:
    """Return the filter as an Arrow expression over logical names; see `predicate_arrow`."""
    from deltasql.protocol.predicate_arrow import (  # noqa: PLC0415 (pruning needs no pyarrow)
        to_arrow as convert,
    )

    return convert(predicate)
