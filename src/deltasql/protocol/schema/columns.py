"""What a table's columns mean: physical names, leaves, partitions, and the markers in their
metadata.

Everything here is a function of the schema and the table's configuration; nothing reads data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from deltasql.errors import SchemaError
from deltasql.protocol.actions import Metadata
from deltasql.protocol.schema.types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    parse_schema,
)

MappingMode: TypeAlias = Literal["none", "name", "id"]

PHYSICAL_NAME = "delta.columnMapping.physicalName"
COLUMN_ID = "delta.columnMapping.id"
MODE = "delta.columnMapping.mode"
INVARIANTS = "delta.invariants"
GENERATED = "delta.generationExpression"
DEFAULT = "CURRENT_DEFAULT"
CONSTRAINT_PREFIX = "delta.constraints."
TYPE_CHANGES = "delta.typeChanges"
_IDENTITY = "delta.identity."

# Parquet readers of old could not take these in a name; Delta refuses them without column mapping.
_AWKWARD = frozenset(" ,;{}()\n\t=")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column without fields of its own (arrays and maps count as one), with both its names."""

    path: tuple[str, ...]
    physical: tuple[str, ...]
    type: DataType
    nullable: bool


def mapping_mode(configuration: Mapping[str, str]) -> MappingMode:
    """Return the table's column mapping mode.

    Raises:
        SchemaError: the mode is none that Delta defines.
    """
    match configuration.get(MODE, "none").lower():
        case "none":
            return "none"
        case "name":
            return "name"
        case "id":
            return "id"
    raise SchemaError(f"The column mapping mode {configuration[MODE]!r} is not known.")


def physical_name(field: StructField, mode: MappingMode) -> str:
    """Return the field's name in data files, partition values and statistics.

    Raises:
        SchemaError: the table maps columns and the field has no physical name.
    """
    if mode == "none":
        return field.name
    name = field.metadata.get(PHYSICAL_NAME)
    if not isinstance(name, str):
        raise SchemaError(f"The column {field.name} lacks its physical name.", column=field.name)
    return name


def field_id(field: StructField) -> int | None:
    """Return the field's id for column mapping, if it has one."""
    number = field.metadata.get(COLUMN_ID)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def leaves(schema: StructType, mode: MappingMode = "none") -> Iterator[Leaf]:
    """Yield the leaf columns in schema order."""
    yield from _leaves(schema, mode, (), (), nullable=False)


def _leaves(
    struct: StructType,
    mode: MappingMode,
    path: tuple[str, ...],
    physical: tuple[str, ...],
    *,
    nullable: bool,
) -> Iterator[Leaf]:
    for field in struct.fields:
        here = (*path, field.name)
        there = (*physical, physical_name(field, mode))
        may_be_null = nullable or field.nullable
        if isinstance(field.type, StructType):
            yield from _leaves(field.type, mode, here, there, nullable=may_be_null)
        else:
            yield Leaf(here, there, field.type, may_be_null)


def check_mapping(schema: StructType, mode: MappingMode) -> None:
    """Make sure that every column has what the mode demands.

    Raises:
        SchemaError: names the column that lacks its physical name.
    """
    for _ in leaves(schema, mode):
        pass


def find_column(schema: StructType, path: tuple[str, ...], mode: MappingMode = "none") -> Leaf:
    """Return the column at a path of names, found by exact name first, then ignoring case.

    Raises:
        SchemaError: there is no such column.
    """
    logical: tuple[str, ...] = ()
    physical: tuple[str, ...] = ()
    kind: DataType = schema
    nullable = False
    for name in path:
        field = find_field(kind, name) if isinstance(kind, StructType) else None
        if field is None:
            raise SchemaError(f"There is no column {'.'.join(path)}.", column=".".join(path))
        logical = (*logical, field.name)
        physical = (*physical, physical_name(field, mode))
        kind, nullable = field.type, nullable or field.nullable
    return Leaf(logical, physical, kind, nullable)


def find_field(struct: StructType, name: str) -> StructField | None:
    """Return the field of that name: spelled exactly so, else ignoring case."""
    for field in struct.fields:
        if field.name == name:
            return field
    folded = name.lower()
    return next((field for field in struct.fields if field.name.lower() == folded), None)


def check_names(
    schema: StructType, mode: MappingMode = "none", before: StructType | None = None
) -> None:
    """Refuse names of new columns that Delta refuses: equal but for case, empty, or awkward
    without mapping. Columns that the table had `before` keep their names: others write awkward
    ones, and every reader reads them.

    Raises:
        SchemaError: names the columns.
    """
    check_unique_names(schema)
    old = set() if before is None else {path for path, _ in fields_with_paths(before)}
    for path, field in fields_with_paths(schema):
        is_awkward = not field.name or (mode == "none" and _AWKWARD & set(field.name))
        if is_awkward and path not in old:
            raise SchemaError(
                f"The column name {field.name!r} is empty or holds one of the characters "
                "' ,;{}()=', tab or newline.",
                column=path,
            )


def check_unique_names(schema: StructType) -> None:
    """Refuse names that are equal but for case.

    Raises:
        SchemaError: names the columns.
    """
    for path, struct in _structs(schema, ""):
        seen: dict[str, str] = {}
        for field in struct.fields:
            here = f"{path}.{field.name}" if path else field.name
            twin = seen.get(field.name.lower())
            seen[field.name.lower()] = field.name
            if twin is not None:
                raise SchemaError(f"The columns {twin} and {here} have the same name.", column=here)


def _structs(kind: DataType, path: str) -> Iterator[tuple[str, StructType]]:
    match kind:
        case StructType(fields=fields):
            yield path, kind
            for field in fields:
                yield from _structs(field.type, f"{path}.{field.name}" if path else field.name)
        case ArrayType(element=element):
            yield from _structs(element, f"{path}.element")
        case MapType(key=key, value=value):
            yield from _structs(key, f"{path}.key")
            yield from _structs(value, f"{path}.value")


def fields_with_paths(schema: StructType) -> Iterator[tuple[str, StructField]]:
    """Yield every field of the schema, nested ones included, with its dotted path."""
    for path, struct in _structs(schema, ""):
        for field in struct.fields:
            yield (f"{path}.{field.name}" if path else field.name), field


def loosen(kind: DataType) -> DataType:
    """Return the type with all members of structs nullable, at every depth.

    Arrow cannot hold a null struct above a member that is not null; data is carried in this form
    and what is NOT NULL is checked.
    """
    match kind:
        case StructType(fields=fields):
            members = (replace(one, type=loosen(one.type), nullable=True) for one in fields)
            return StructType(tuple(members))
        case ArrayType(element=element):
            return replace(kind, element=loosen(element))
        case MapType(value=value):
            return replace(kind, key=loosen(kind.key), value=loosen(value))
    return kind


def loosen_columns(schema: StructType) -> StructType:
    """Return the schema with loosened types; the columns themselves stay NOT NULL."""
    return StructType(tuple(replace(one, type=loosen(one.type)) for one in schema.fields))


def is_generated(field: StructField) -> bool:
    """Tell whether the column's values are computed from others."""
    return GENERATED in field.metadata


def generation_expression(field: StructField) -> str | None:
    """Return the SQL expression that the column's values are computed by, if there is one."""
    text = field.metadata.get(GENERATED)
    return text if isinstance(text, str) else None


def is_identity(field: StructField) -> bool:
    """Tell whether the column's values are handed out by the table."""
    return any(key.startswith(_IDENTITY) for key in field.metadata)


def has_default(field: StructField) -> bool:
    """Tell whether rows that leave the column out get a value other than null."""
    return DEFAULT in field.metadata


def default_expression(field: StructField) -> str | None:
    """Return the SQL expression of the value that rows without the column get, if there is one."""
    text = field.metadata.get(DEFAULT)
    return text if isinstance(text, str) else None


def invariant(field: StructField) -> str | None:
    """Return the SQL expression that the column's values must satisfy, if there is one."""
    text = field.metadata.get(INVARIANTS)
    return text if isinstance(text, str) else None


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
