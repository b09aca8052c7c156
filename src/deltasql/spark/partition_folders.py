"""Partition values by way of Spark's folder names: what Spark is given, and how they are read.

Spark prints a timestamp in the session's zone, where an hour may come twice; it is given the time
in UTC without a zone instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

from deltasql.errors import CorruptDataError, SchemaError
from deltasql.protocol.columns import MappingMode, physical_name
from deltasql.protocol.schema import StructField
from deltasql.protocol.values import parse_partition_value, print_partition_value

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_IN_UTC = "timestampadd(MICROSECOND, unix_micros({}), TIMESTAMP_NTZ'1970-01-01 00:00:00')"


def folder_expression(quoted: str, kind: str) -> str:
    """Return the SQL of the value that Spark shall name folders by."""
    return _IN_UTC.format(quoted) if kind == "timestamp" else quoted


def folder_values(
    folders: Sequence[str], fields: Sequence[StructField], mode: MappingMode
) -> dict[str, str | None]:
    """Return the partition values of a file as the log spells them, from the folders above it.

    Raises:
        SchemaError: a value is one that the log cannot spell.
        CorruptDataError: the folders are not those of the partition columns.
    """
    if len(folders) != len(fields):
        raise CorruptDataError(f"Spark left a file below {'/'.join(folders)!r}.")
    return {
        physical_name(field, mode): _value(folder, field, physical_name(field, mode))
        for folder, field in zip(folders, fields, strict=True)
    }


def _value(folder: str, field: StructField, name: str) -> str | None:
    found, _, escaped = folder.partition("=")
    if unquote(found) != name:
        raise CorruptDataError(f"Spark left a file below {folder!r}, not below {name}=….")
    if escaped == _HIVE_NULL:
        return None
    text = unquote(escaped)
    if field.type.name == "string":
        return text or None
    value = parse_partition_value(text, field.type)
    try:
        if value is not None:
            return print_partition_value(value, field.type)
    except (ValueError, OverflowError):
        pass  # a year that not every reader reads
    raise SchemaError(
        f"The partition column {field.name} holds {text!r}, which the log cannot spell.",
        column=field.name,
    )
