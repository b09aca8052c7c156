"""Partition columns of a table by the names that files and statistics use."""

from __future__ import annotations

from deltasql.protocol.actions import Metadata
from deltasql.protocol.columns import find_field, mapping_mode, physical_name
from deltasql.protocol.schema import StructField, parse_schema


def partition_fields(metadata: Metadata) -> list[StructField]:
    """Return the fields a table is partitioned by, in their order."""
    if not metadata.partition_columns:
        return []
    schema = parse_schema(metadata.schema_string)
    found = [find_field(schema, name) for name in metadata.partition_columns]
    return [field for field in found if field is not None]


def physical_partition_columns(metadata: Metadata) -> list[str]:
    """Return the names under which files carry their partition values."""
    mode = mapping_mode(metadata.configuration)
    return [physical_name(field, mode) for field in partition_fields(metadata)]
