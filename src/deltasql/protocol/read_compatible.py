"""Can rows written under one schema be read by another? What a stream asks at every change."""

from __future__ import annotations

from dataclasses import dataclass

from deltasql.protocol.actions import Metadata
from deltasql.protocol.columns import MappingMode, find_field, mapping_mode, physical_name
from deltasql.protocol.schema import (
    ArrayType,
    DataType,
    MapType,
    StructType,
    parse_schema,
)


@dataclass(frozen=True, slots=True)
class ReadSchema:
    """The columns that a reader has settled on, and how they are found in files."""

    schema: StructType
    partition_columns: tuple[str, ...]
    mode: MappingMode

    @classmethod
    def of(cls, metadata: Metadata) -> ReadSchema:
        """Return the columns as a table's metadata tells them."""
        mode = mapping_mode(metadata.configuration)
        columns = tuple(metadata.partition_columns)
        return cls(parse_schema(metadata.schema_string), columns, mode)

    def misfit(self, written: ReadSchema) -> str | None:
        """Return what rows of another schema would lose if they were read by this one.

        A column that they lack is null, which is right; one that the reader lacks would be lost,
        and one of another name, type or place would be read wrongly.
        """
        if written.partition_columns != self.partition_columns:
            return "the table is partitioned otherwise"
        return _misfit(written.schema, written.mode, self.schema, self.mode, "")


def _misfit(
    written: StructType, written_mode: MappingMode, read: StructType, mode: MappingMode, place: str
) -> str | None:
    for one in written.fields:
        name = f"{place}{one.name}"
        other = find_field(read, one.name)
        if other is None:
            return f"the column {name} is not known to the reader"
        if physical_name(one, written_mode) != physical_name(other, mode):
            return f"the column {name} was made anew"
        if one.nullable and not other.nullable:
            return f"the column {name} may be null"
        found = _kinds(one.type, written_mode, other.type, mode, name)
        if found is not None:
            return found
    added = [one.name for one in read.fields if find_field(written, one.name) is None]
    late = [name for name in added if not _nullable(read, name)]
    return f"the column {place}{late[0]} may not be null and is missing" if late else None


def _nullable(schema: StructType, name: str) -> bool:
    found = find_field(schema, name)
    return found is None or found.nullable


def _kinds(
    written: DataType, written_mode: MappingMode, read: DataType, mode: MappingMode, name: str
) -> str | None:
    match written, read:
        case StructType(), StructType():
            return _misfit(written, written_mode, read, mode, f"{name}.")
        case ArrayType(), ArrayType():
            loose = written.contains_null and not read.contains_null
            below = [(written.element, read.element, "element")]
        case MapType(), MapType():
            loose = written.value_contains_null and not read.value_contains_null
            below = [(written.key, read.key, "key"), (written.value, read.value, "value")]
        case _:
            same = written == read
            return None if same else f"the column {name} is of type {written.name}, not {read.name}"
    if loose:
        return f"{below[-1][2]}s of {name} may be null"
    found = (_kinds(one, written_mode, two, mode, f"{name}.{what}") for one, two, what in below)
    return next((one for one in found if one is not None), None)
