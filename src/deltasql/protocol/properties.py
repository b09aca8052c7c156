"""Table properties with Delta's defaults, read as typed values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta

from deltasql.errors import BadArgumentError
from deltasql.protocol.property_names import (
    DELTA_PROPERTIES,
    FENCE_PROPERTY,
    SETTING_PREFIX,
    STATS_INDEX_PROPERTY,
    check_names,
)
from deltasql.protocol.required_features import FEATURE_PREFIX

DEFAULT_STATS_INDEX_COLUMNS = 4

_DEFAULTS: Mapping[str, str] = {
    "delta.appendOnly": "false",
    "delta.checkpointInterval": "10",
    "delta.checkpoint.writeStatsAsJson": "true",
    "delta.checkpoint.writeStatsAsStruct": "false",
    "delta.columnMapping.mode": "none",
    "delta.dataSkippingNumIndexedCols": "32",
    "delta.dataSkippingStringPrefixLength": "32",
    "delta.deletedFileRetentionDuration": "interval 1 week",
    "delta.enableChangeDataFeed": "false",
    "delta.enableDeletionVectors": "false",
    "delta.enableExpiredLogCleanup": "true",
    "delta.enableInCommitTimestamps": "false",
    "delta.enableRowTracking": "false",
    "delta.isolationLevel": "Serializable",
    "delta.logRetentionDuration": "interval 30 days",
    FENCE_PROPERTY: "true",
    STATS_INDEX_PROPERTY: str(DEFAULT_STATS_INDEX_COLUMNS),
}
_BOOLEANS = {key for key, value in _DEFAULTS.items() if value in {"true", "false"}} | {
    key for key in DELTA_PROPERTIES if key.startswith("delta.enable")
}
_CHOICES = {
    "delta.checkpointPolicy": {"classic", "v2"},
    "delta.columnMapping.mode": {"none", "name", "id"},
}
_LEAST = {"delta.checkpointInterval": 1, "delta.dataSkippingNumIndexedCols": -1}
_UNITS = {
    "microsecond": timedelta(microseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
_INTERVAL = re.compile(r"(-?\d+)\s+([a-z]+?)s?(?=\s|$)")


def is_setting(key: str) -> bool:
    """Tell whether a table property is a setting of deltasql's own, or read as one."""
    return key.startswith((SETTING_PREFIX, "mirror.")) or key == "delta.checkpointInterval"


def read(configuration: Mapping[str, str], key: str) -> str:
    """Return a property's text, or Delta's default where the table does not set it."""
    text = configuration.get(key)
    return _DEFAULTS[key] if text is None else text


def read_bool(configuration: Mapping[str, str], key: str) -> bool:
    """Return a property that is true or false, in any case."""
    return read(configuration, key).strip().lower() == "true"


def read_int(configuration: Mapping[str, str], key: str) -> int:
    """Return a whole-number property.

    Raises:
        BadArgumentError: the table's value is not a whole number.
    """
    text = read(configuration, key).strip()
    try:
        return int(text)
    except ValueError as error:
        raise BadArgumentError(f"The property {key} is {text!r}, not a whole number.") from error


def read_interval(configuration: Mapping[str, str], key: str) -> timedelta:
    """Return a duration such as `interval 1 week` or `interval 2 days 12 hours`."""
    text = read(configuration, key)
    spelled = text.strip().lower().removeprefix("interval").strip()
    parts = _INTERVAL.findall(spelled)
    if not parts or _INTERVAL.sub("", spelled).strip() or any(u not in _UNITS for _, u in parts):
        raise BadArgumentError(f"The property {key} is {text!r}, not an interval like '7 days'.")
    try:
        return sum((int(count) * _UNITS[unit] for count, unit in parts), timedelta())
    except (OverflowError, ValueError) as error:
        raise BadArgumentError(f"The property {key} is longer than any interval.") from error


def check_changes(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Check the properties that a commit sets anew; what other writers have set stays.

    Raises:
        BadArgumentError: names the property and what it may be.
    """
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    check(changed)
    named = next((key for key in changed if key.startswith(FEATURE_PREFIX)), None)
    if named is not None:
        raise BadArgumentError(f"The property {named} belongs into the protocol, as a feature.")


def check(properties: Mapping[str, str]) -> None:
    """Refuse properties that nobody knows, and values that readers or writers would trip over.

    Raises:
        BadArgumentError: names the property and what it may be.
    """
    check_names(properties)
    for key, value in properties.items():
        if not isinstance(value, str):
            raise BadArgumentError(f"The property {key} must be text, not {type(value).__name__}.")
        if key in _BOOLEANS and value.strip().lower() not in {"true", "false"}:
            raise BadArgumentError(f"The property {key} must be true or false, not {value!r}.")
        if key.startswith("delta.") and key.endswith("RetentionDuration"):
            read_interval(properties, key)
        if key in _CHOICES and value.strip().lower() not in _CHOICES[key]:
            choices = " or ".join(sorted(_CHOICES[key]))
            raise BadArgumentError(f"The property {key} must be {choices}, not {value!r}.")
        if key in _LEAST and read_int(properties, key) < _LEAST[key]:
            raise BadArgumentError(f"The property {key} must be at least {_LEAST[key]}.")
    if read(properties, "delta.isolationLevel") != "Serializable":
        raise BadArgumentError("The property delta.isolationLevel may only be Serializable.")
