"""How many rows files have, from what the log says of them, only where that is exact.

Rows are counted less those that deletion vectors delete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.protocol.predicate import Predicate, columns_of
from deltasql.protocol.predicate_match import answers, partition_facts

_DICTS = msgspec.json.Decoder(dict[str, str | None])
_DELETED = msgspec.json.Decoder(dict[str, Any])


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
    texts = pc.unique(files["partition_values"]).to_pylist()
    values = (_DICTS.decode(text) if text else {} for text in texts)
    return all(_answers(predicate, each) == {True} for each in values)


def _answers(predicate: Predicate, values: Mapping[str, str | None]) -> frozenset[bool | None]:
    return answers(predicate, lambda c: partition_facts(c, values.get(c.physical[0])))
