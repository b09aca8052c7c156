"""Texts that are longer than their column allows are refused before they are written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.errors import ConstraintViolationError
from deltasql.protocol.text_limits import TextLimit


def enforce_lengths(limits: Iterable[TextLimit], batch: pa.RecordBatch) -> None:
    """Refuse a batch (logical names, table types) with a text that is too long.

    Raises:
        ConstraintViolationError: names the column.
    """
    for limit in limits:
        texts = batch.column(limit.place[0])
        for step in limit.place[1:]:
            texts = _below(texts, step)
        count = pc.sum(pc.greater(pc.utf8_length(texts), limit.length)).as_py() or 0
        if count:
            raise ConstraintViolationError(
                f"{count} texts in the column {limit.path} are too long for its {limit.type}.",
                column=limit.path,
            )


def _below(array: Any, step: str) -> Any:
    if pa.types.is_struct(array.type):
        return pc.struct_field(array, step)
    if not pa.types.is_map(array.type):
        return pc.list_flatten(array)
    kinds = [
        pa.field("key", array.type.key_type, nullable=False),
        pa.field("value", array.type.item_type),
    ]
    # the keys of a slice would be those of all
    return pc.struct_field(pc.list_flatten(array.cast(pa.list_(pa.struct(kinds)))), step)
