"""Arrow data in a table's shape and types: widened, never narrowed.

Arrays of one shape brought into another, field by field, however deep they are nested. Writing
goes from the caller's columns to the file's, reading from the file's to the table's. The walk is
the same; what differs (how fields are found, what is allowed) is a `Shape`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.data.constraints import check_not_null
from deltasql.errors import DeltaSqlError, SchemaError
from deltasql.protocol.schema.arrow import from_arrow_type, to_arrow_schema, to_arrow_type
from deltasql.protocol.schema.columns import MappingMode, loosen, loosen_columns
from deltasql.protocol.schema.types import (
    ArrayType,
    DataType,
    Decimal,
    MapType,
    StructField,
    StructType,
)
from deltasql.protocol.values import INTEGER_BITS

# How many digits the values of an integer type may have.
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}

# Integers that a double holds exactly.
_IN_A_DOUBLE = frozenset({"byte", "short", "integer"})


@dataclass(frozen=True, slots=True)
class Shape:
    """The rules of a walk.

    `find` gives the position of a field among the source's, `cast` turns a leaf, `absent` is asked
    before a missing field is filled with nulls, `surplus` before source fields are left out,
    `check` sees each finished field with its parent (None at the top).
    """

    mode: MappingMode
    physical: bool
    find: Callable[[list[pa.Field], StructField], int | None]
    cast: Callable[[Any, DataType, str], Any]
    absent: Callable[[StructField, str], None]
    surplus: Callable[[list[str]], None]
    check: Callable[[StructField, Any, Any, str], None]
    misfit: Callable[[Any, DataType, str], DeltaSqlError]

    def target(self, kind: DataType) -> pa.DataType:
        """Return the Arrow type that values of a Delta type get."""
        return to_arrow_type(loosen(kind), self.mode, physical=self.physical)


def bare_batch(rows: int) -> pa.RecordBatch:
    """Return a batch of no columns that still knows its number of rows."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))


def reshape_columns(batch: pa.RecordBatch, schema: StructType, shape: Shape) -> list[Any]:
    """Return one array per field of the schema, in its order."""
    fields = [batch.schema.field(position) for position in range(batch.num_columns)]
    return _fields(schema, fields, batch.column, batch.num_rows, _Walk(shape, None, ""))


@dataclass(frozen=True, slots=True)
class _Walk:
    shape: Shape
    parent: Any
    path: str

    def below(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name


def _fields(
    kind: StructType,
    fields: list[pa.Field],
    column: Callable[[int], Any],
    length: int,
    walk: _Walk,
) -> list[Any]:
    shape, found, used = walk.shape, [], set()
    for field in kind.fields:
        here = walk.below(field.name)
        position = shape.find(fields, field)
        if position is None:
            shape.absent(field, here)
            array = pa.nulls(length, shape.target(field.type))
        else:
            used.add(position)
            array = _reshape(column(position), field.type, walk, here)
        shape.check(field, array, walk.parent, here)
        found.append(array)
    left_out = [walk.below(one.name) for at, one in enumerate(fields) if at not in used]
    if left_out:
        shape.surplus(left_out)
    return found


def _reshape(array: Any, kind: DataType, walk: _Walk, path: str) -> Any:
    shape = walk.shape
    array = _plain(array)
    target = shape.target(kind)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    match kind:
        case StructType():
            if not pa.types.is_struct(array.type):
                raise shape.misfit(array.type, kind, path)
            return _struct(array, kind, target, _Walk(shape, array, path))
        case ArrayType():
            return _list(array, kind, target, _Walk(shape, None, path))
        case MapType():
            return _map(array, kind, target, _Walk(shape, None, path))
    return array if array.type == target else shape.cast(array, kind, path)


def _struct(array: Any, kind: StructType, target: pa.StructType, walk: _Walk) -> Any:
    fields = [array.type.field(position) for position in range(array.type.num_fields)]

    def column(position: int) -> Any:
        return pc.struct_field(array, [position])

    children = _fields(kind, fields, column, len(array), walk)
    if not children:
        return array.cast(target)
    members = [target.field(position) for position in range(target.num_fields)]
    return pa.StructArray.from_arrays(children, fields=members, mask=_mask(array))


def _list(array: Any, kind: ArrayType, target: pa.DataType, walk: _Walk) -> Any:
    if not hasattr(array.type, "value_field") or pa.types.is_map(array.type):
        raise walk.shape.misfit(array.type, kind, walk.path)
    element = StructField("element", kind.element, kind.contains_null)
    values = _part(array.flatten(), element, walk)
    return pa.ListArray.from_arrays(_offsets(array), values, type=target, mask=_mask(array))


def _offsets(array: Any) -> Any:
    """Return where the lists begin among their flattened values.

    Counted from the lengths, because this holds for every kind of list: Arrow's own cast from
    list views to lists loses values.
    """
    lengths = pc.fill_null(pc.list_value_length(array).cast(pa.int64()), 0)
    ends = pc.cumulative_sum(lengths).cast(pa.int32())
    return pa.concat_arrays([pa.array([0], pa.int32()), ends])


def _map(array: Any, kind: MapType, target: pa.DataType, walk: _Walk) -> Any:
    if not pa.types.is_map(array.type):
        raise walk.shape.misfit(array.type, kind, walk.path)
    whole = _whole(array)
    keys = _part(whole.keys, StructField("key", kind.key, nullable=False), walk)
    items = _part(whole.items, StructField("value", kind.value, kind.value_contains_null), walk)
    return pa.MapArray.from_arrays(whole.offsets, keys, items, type=target, mask=_mask(whole))


def _part(array: Any, field: StructField, walk: _Walk) -> Any:
    here = walk.below(field.name)
    found = _reshape(array, field.type, walk, here)
    walk.shape.check(field, found, None, here)
    return found


def _whole(array: Any) -> Any:
    """Return the array without an offset and without values below its nulls."""
    if not array.offset and not array.null_count and len(array):
        return array
    return array.take(pa.array(range(len(array)), pa.int64()))


def _mask(array: Any) -> Any:
    return array.is_null() if array.null_count else None


def _plain(array: Any) -> Any:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array.type, pa.BaseExtensionType):
        return _plain(array.storage)
    if pa.types.is_dictionary(array.type):
        return _without_views(_plain(array.dictionary)).take(array.indices)
    if pa.types.is_run_end_encoded(array.type):
        return _plain(pc.run_end_decode(array))
    return array


def _without_views(array: Any) -> Any:
    """Return the values in a type that Arrow can take from; Polars has its categories as views."""
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    return array.cast(pa.large_binary()) if pa.types.is_binary_view(array.type) else array


def conform(batch: pa.RecordBatch, schema: StructType) -> pa.RecordBatch:
    """Return the rows with the table's columns in its order, under their logical names.

    Missing columns become null; case does not matter in names.

    Raises:
        SchemaError: there are columns that the table lacks, or values that do not fit.
        ConstraintViolationError: a NOT NULL column has no value.
    """
    arrays = reshape_columns(batch, schema, _INPUT)
    return _batch(arrays, to_arrow_schema(loosen_columns(schema)), batch.num_rows)


def to_physical(batch: pa.RecordBatch, schema: StructType, mode: MappingMode) -> pa.RecordBatch:
    """Return conforming rows under the names and ids that the table's files use."""
    target = to_arrow_schema(loosen_columns(schema), mode, physical=True)
    if mode == "none":
        return batch
    arrays = reshape_columns(batch, schema, _renaming(mode))
    return _batch(arrays, target, batch.num_rows)


def check_input(schema: pa.Schema) -> None:
    """Refuse columns whose stored values are not what they mean.

    Raises:
        SchemaError: names the column and its extension type.
    """
    for field in schema:
        _check_extensions(field.type, field.name)


def _check_extensions(kind: pa.DataType, path: str) -> None:
    if isinstance(kind, pa.BaseExtensionType):
        from_arrow_type(kind, path)
    elif pa.types.is_dictionary(kind):
        _check_extensions(kind.value_type, path)
    else:
        for position in range(kind.num_fields):
            below = kind.field(position)
            _check_extensions(below.type, f"{path}.{below.name}")


def is_widening(source: DataType, target: DataType) -> bool:
    """Tell whether every value of one type is a value of the other."""
    if source == target or source.name == "void":
        return True
    if isinstance(target, Decimal):
        whole = target.precision - target.scale
        if isinstance(source, Decimal):
            return source.scale <= target.scale and source.precision - source.scale <= whole
        return source.name in _DIGITS and _DIGITS[source.name] <= whole
    if source.name in INTEGER_BITS and target.name in INTEGER_BITS:
        return INTEGER_BITS[source.name] <= INTEGER_BITS[target.name]
    return target.name == "double" and (source.name == "float" or source.name in _IN_A_DOUBLE)


def _batch(arrays: list[Any], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    if not arrays:
        return bare_batch(rows)
    # Fields of type `element` or `key` may differ in nullability from what was checked.
    fitted = [
        array if array.type == field.type else array.cast(field.type)
        for array, field in zip(arrays, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(fitted, schema=schema)


def _find_by_name(fields: list[pa.Field], field: StructField) -> int | None:
    wanted = field.name.lower()
    found = [at for at, one in enumerate(fields) if one.name.lower() == wanted]
    if len(found) > 1:
        raise SchemaError(f"The rows have {len(found)} columns named {field.name}.")
    return found[0] if found else None


def _cast(array: Any, kind: DataType, path: str) -> Any:
    if not is_widening(from_arrow_type(array.type, path), kind):
        raise _misfit(array.type, kind, path)
    try:
        return array.cast(to_arrow_type(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            f"The column {path} holds a value that {kind.name} cannot hold exactly.", column=path
        ) from error


def _misfit(found: Any, kind: DataType, path: str) -> DeltaSqlError:
    return SchemaError(
        f"The column {path} is of type {kind.name} and cannot take values of type {found}.",
        column=path,
    )


def _absent(field: StructField, path: str) -> None:
    if not field.nullable:
        raise SchemaError(f"The column {path} is NOT NULL and missing from the rows.", column=path)


def _extra(paths: list[str]) -> None:
    raise SchemaError(f"The table has no column {', '.join(sorted(paths))}.", columns=sorted(paths))


def _pass(*_: object) -> None:
    """Nothing to object to."""


def _check_values(field: StructField, array: Any, parent: Any, path: str) -> None:
    check_not_null(field, array, parent, path)
    if field.type.name == "string":
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise SchemaError(
                f"The column {path} holds text that is not UTF-8.", column=path
            ) from error


_INPUT = Shape("none", False, _find_by_name, _cast, _absent, _extra, _check_values, _misfit)


def _renaming(mode: MappingMode) -> Shape:
    return Shape(mode, True, _find_by_name, _cast, _pass, _pass, _pass, _misfit)
