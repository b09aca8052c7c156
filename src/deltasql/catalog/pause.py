"""A table whose mirror rests by an operator's word: a mark in the table's own properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PAUSED = "deltasql.paused"


def is_paused(properties: Mapping[str, Any]) -> bool:
    """Tell whether a table's mirror was paused."""
    return str(properties.get(PAUSED, "")).lower() == "true"


def with_pause(properties: Mapping[str, Any], *, paused: bool) -> dict[str, Any]:
    """Return the properties with the mark set or gone."""
    rest = {key: value for key, value in properties.items() if key != PAUSED}
    return {**rest, PAUSED: "true"} if paused else rest
