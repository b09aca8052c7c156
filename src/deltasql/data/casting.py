"""The caller's rows in the table's shape: columns by name, types widened, never narrowed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from deltasql.data.constraints import check_not_null
from deltasql.data.shape import Shape, bare_batch, reshape_columns
from deltasql.errors import DeltaSqlError, SchemaError
from deltasql.protocol.arrow_schema import from_arrow_type, to_arrow_schema, to_arrow_type
from deltasql.protocol.columns import MappingMode, loosen_columns
from deltasql.protocol.schema import DataType, Decimal, StructField, StructType
from deltasql.protocol.values import INTEGER_BITS

# How many digits the values of an integer type may have.
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
# Integers that a double holds exactly.
_IN_A_DOUBLE = frozenset({"byte", "short", "integer"})


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
