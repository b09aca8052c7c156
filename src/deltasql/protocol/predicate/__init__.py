"""Filters over a table: one door to parsing, pruning and exact evaluation.

`parse_predicate` gives a frozen value; `may_match` and `index_ranges` prune files with it, keeping
too much rather than too little; `to_arrow` decides rows exactly.

Every package may import it. Start with `ast`; `parser` reads a filter's text, `prune` skips files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltasql.protocol.predicate.ast import (
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
from deltasql.protocol.predicate.parser import parse_predicate
from deltasql.protocol.predicate.prune import (
    IndexRange,
    index_ranges,
    may_match,
    parts_without_range,
    surely_holds,
)

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
    """Return the filter as an Arrow expression over logical names; see `arrow_filter`."""
    from deltasql.protocol.predicate.arrow_filter import to_arrow as convert  # noqa: PLC0415 (pruning needs no pyarrow)

    return convert(predicate)
