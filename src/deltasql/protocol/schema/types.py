"""The schema of a Delta table as frozen values: parsed from its JSON, printed back verbatim.

Knows types and fields only; what a field's metadata means (column mapping, invariants, generated
columns) stands in `columns`, how it looks in Arrow in `arrow_schema`.

Columns of char(n) and varchar(n): texts to Delta, which notes the type beside the field. A write
must not exceed the length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

from deltasql.errors import SchemaError, UnsupportedFeatureError

PRIMITIVES = frozenset(
    {
        "binary",
        "boolean",
        "byte",
        "date",
        "double",
        "float",
        "integer",
        "long",
        "short",
        "string",
        "timestamp",
        "timestamp_ntz",
        "variant",
        "void",
    }
)

# What older writers call the same types.
_OTHER_NAMES = {"null": "void"}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
MAX_PRECISION = 38

_FIELD_KEYS = frozenset({"name", "type", "nullable", "metadata"})

TYPE_TEXT = "__CHAR_VARCHAR_TYPE_STRING"
_LIMITED = re.compile(r"(?:var)?char\((\d+)\)")

# names in backquotes, signs, and names of types with what they have in brackets
_TOKEN = re.compile(r"`(?:[^`]|``)*`|[<>,:]|[^<>,:`(]+(?:\([^)]*\))?")
_STEPS = {"array": ("element",), "map": ("key", "value")}


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parts, by its Delta name."""

    name: str


@dataclass(frozen=True, slots=True)
class Decimal:
    """An exact number of `precision` digits, `scale` of them behind the point."""

    precision: int
    scale: int

    @property
    def name(self) -> str:
        """The type's Delta name."""
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of elements of one type."""

    element: DataType
    contains_null: bool = True

    @property
    def name(self) -> str:
        """The type's name in messages."""
        return f"array<{self.element.name}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """A map from keys of one type to values of another."""

    key: DataType
    value: DataType
    value_contains_null: bool = True

    @property
    def name(self) -> str:
        """The type's name in messages."""
        return f"map<{self.key.name},{self.value.name}>"


@dataclass(frozen=True, slots=True)
class StructField:
    """A column or a member of a struct; `extra` keeps keys of its JSON that we do not know."""

    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class StructType:
    """Fields in order; the type of a table and of nested structs."""

    fields: tuple[StructField, ...] = ()

    @property
    def name(self) -> str:
        """The type's name in messages."""
        return f"struct<{','.join(f'{one.name}:{one.type.name}' for one in self.fields)}>"

    @property
    def names(self) -> list[str]:
        """The names of the fields, in order."""
        return [one.name for one in self.fields]


DataType: TypeAlias = Primitive | Decimal | ArrayType | MapType | StructType

BINARY = Primitive("binary")
BOOLEAN = Primitive("boolean")
BYTE = Primitive("byte")
DATE = Primitive("date")
DOUBLE = Primitive("double")
FLOAT = Primitive("float")
INTEGER = Primitive("integer")
LONG = Primitive("long")
SHORT = Primitive("short")
STRING = Primitive("string")
TIMESTAMP = Primitive("timestamp")
TIMESTAMP_NTZ = Primitive("timestamp_ntz")
VOID = Primitive("void")


@lru_cache(maxsize=256)  # the same few texts are asked for by every commit
def parse_schema(text: str) -> StructType:
    """Return the schema that a `schemaString` holds.

    Raises:
        SchemaError: the text is not a schema, or a column has a type that Delta does not define.
    """
    try:
        tree = json.loads(text)
        parsed = _type(tree, "")
    except (ValueError, RecursionError) as error:
        if isinstance(error, SchemaError):
            raise
        raise SchemaError(f"The table's schema is not valid JSON: {_short(error)}.") from error
    if not isinstance(parsed, StructType):
        raise SchemaError(f"The table's schema is a {parsed.name}, not a struct.")
    return parsed


def print_schema(schema: StructType) -> str:
    """Return the schema as compact JSON in Spark's order of keys."""
    return json.dumps(type_to_json(schema), ensure_ascii=False, separators=(",", ":"))


def type_to_json(kind: DataType) -> Any:
    """Return a type as plain JSON values."""
    match kind:
        case StructType(fields=fields):
            return {"type": "struct", "fields": [_field_to_json(one) for one in fields]}
        case ArrayType(element=element, contains_null=contains_null):
            return {
                "type": "array",
                "elementType": type_to_json(element),
                "containsNull": contains_null,
            }
        case MapType(key=key, value=value, value_contains_null=contains_null):
            return {
                "type": "map",
                "keyType": type_to_json(key),
                "valueType": type_to_json(value),
                "valueContainsNull": contains_null,
            }
    return kind.name


def _field_to_json(one: StructField) -> dict[str, Any]:
    return {
        "name": one.name,
        "type": type_to_json(one.type),
        "nullable": one.nullable,
        "metadata": dict(one.metadata),
        **one.extra,
    }


def _type(tree: Any, path: str) -> DataType:
    if isinstance(tree, str):
        return parse_type_name(tree, path)
    if not isinstance(tree, dict):
        raise _wrong(path, f"has the type {json.dumps(tree)}, which is no type")
    match tree.get("type"):
        case "struct":
            return _struct(tree, path)
        case "array":
            element = _type(_part(tree, "elementType", path), f"{path}.element")
            return ArrayType(element, _flag(tree, "containsNull", path))
        case "map":
            key = _type(_part(tree, "keyType", path), f"{path}.key")
            value = _type(_part(tree, "valueType", path), f"{path}.value")
            return MapType(key, value, _flag(tree, "valueContainsNull", path))
    raise _wrong(path, f"has the type {json.dumps(tree.get('type'))}, which Delta does not define")


def parse_type_name(name: str, column: str = "") -> DataType:
    """Return the primitive or decimal type of that name.

    Raises:
        SchemaError: Delta has no such type; the message names the column.
    """
    known = _OTHER_NAMES.get(name, name)
    if known in PRIMITIVES:
        return Primitive(known)
    if name == "decimal":
        return Decimal(10, 0)
    found = _DECIMAL.fullmatch(name)
    if found is None:
        raise _wrong(column, f'has the type "{name}", which Delta does not define')
    precision, scale = int(found[1]), int(found[2])
    if not (1 <= precision <= MAX_PRECISION and 0 <= scale <= precision):
        raise _wrong(column, f'has the type "{name}", which is out of range')
    return Decimal(precision, scale)


def _struct(tree: dict[str, Any], path: str) -> StructType:
    fields = _part(tree, "fields", path)
    if not isinstance(fields, list):
        raise _wrong(path, "is a struct whose fields are not a list")
    return StructType(tuple(_field(one, path) for one in fields))


def _field(tree: Any, path: str) -> StructField:
    if not isinstance(tree, dict) or not isinstance(tree.get("name"), str):
        raise _wrong(path, "holds a field without a name")
    name = tree["name"]
    here = f"{path}.{name}" if path else name
    metadata = tree.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise _wrong(here, "has metadata that is not a JSON object")
    kind = _type(_part(tree, "type", here), here)
    nullable = _flag(tree, "nullable", here)
    extra = {key: value for key, value in tree.items() if key not in _FIELD_KEYS}
    return StructField(name, kind, nullable, metadata, extra)


def _part(tree: dict[str, Any], key: str, path: str) -> Any:
    if key not in tree:
        raise _wrong(path, f'lacks "{key}"')
    return tree[key]


def _flag(tree: dict[str, Any], key: str, path: str) -> bool:
    value = tree.get(key, True)
    if not isinstance(value, bool):
        raise _wrong(path, f'has a "{key}" that is neither true nor false')
    return bool(value)


def _short(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error)[:200]


def _wrong(path: str, what: str) -> SchemaError:
    subject = f"The column {path.lstrip('.')}" if path.strip(".") else "The table's schema"
    return SchemaError(f"{subject} {what}.", column=path.lstrip("."))


@dataclass(frozen=True, slots=True)
class TextLimit:
    """How long texts may be at a place: a column, then members, `element`, `key` or `value`."""

    place: tuple[str, ...]
    type: str
    length: int

    @property
    def path(self) -> str:
        """The place in one word."""
        return ".".join(self.place)


def text_limits(schema: StructType) -> list[TextLimit]:
    """Return all limits of a table's texts.

    Raises:
        UnsupportedFeatureError: a type is noted that cannot be understood.
    """
    return list(_of_struct(schema, ()))


def _of_struct(struct: StructType, above: tuple[str, ...]) -> Iterator[TextLimit]:
    for column in struct.fields:
        here = (*above, column.name)
        text = column.metadata.get(TYPE_TEXT)
        if isinstance(text, str):
            yield from _read(text, here)
        if isinstance(column.type, StructType):
            yield from _of_struct(column.type, here)


def _read(text: str, place: tuple[str, ...]) -> Iterator[TextLimit]:
    tokens = _TOKEN.findall(text)
    try:
        found = list(_of_type(tokens, place))
    except IndexError:
        found, tokens = [], [text]
    if tokens or "".join(_TOKEN.findall(text)) != text:
        raise UnsupportedFeatureError(
            f"The column {'.'.join(place)} is noted as {text!r}, which is not understood.",
            column=".".join(place),
        )
    yield from found


def _of_type(tokens: list[str], place: tuple[str, ...]) -> Iterator[TextLimit]:
    """Yield the limits of a type, and take its words away."""
    word = tokens.pop(0).strip()
    limited = _LIMITED.fullmatch(word)
    if limited is not None:
        yield TextLimit(place, word, int(limited[1]))
    if not tokens or tokens[0] != "<":
        return
    steps = list(_STEPS.get(word, ()))
    while tokens.pop(0) != ">":  # what opens, or a comma
        if word == "struct" and tokens[0] == ">":
            continue
        step = _member(tokens) if word == "struct" else steps.pop(0)
        yield from _of_type(tokens, (*place, step))
    if steps:
        raise IndexError


def _member(tokens: list[str]) -> str:
    name, colon = tokens.pop(0), tokens.pop(0)
    if colon != ":":
        raise IndexError
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
