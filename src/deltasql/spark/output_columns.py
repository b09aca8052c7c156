"""A DataFrame's columns in the table's shape: found by name, widened, never narrowed.

The rules are those of `deltasql.data.casting`, told to Spark as expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from deltasql.data.casting import is_widening
from deltasql.errors import SchemaError
from deltasql.protocol.schema import ArrayType, DataType, MapType, StructField, StructType
from deltasql.spark.frame_schema import bare_type, spark_type

_Reach: TypeAlias = Callable[[str], Column]


def output_columns(
    given: StructType, table: StructType, defaults: Mapping[str, Column] | None = None
) -> list[Column]:
    """Return the table's columns, in its order and under its names, made from the given ones.

    Missing columns get their default or become null; case does not matter in names.

    Raises:
        SchemaError: there are columns that the table lacks, or types that do not fit.
    """
    walk = _Walk("")
    walk.refuse_extra(given, table)
    known = defaults or {}
    return [
        known[field.name]
        if field.name in known
        else walk.member(field, given, lambda name: F.col(quoted(name))).alias(field.name)
        for field in table.fields
    ]


def quoted(name: str) -> str:
    """Return a name that Spark takes as it is, dots and blanks included."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class _Walk:
    path: str

    def below(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def member(self, field: StructField, given: StructType, column: _Reach) -> Column:
        """Return one field of the table, from the field of that name or as null."""
        here = self.below(field.name)
        source = _find(given.fields, field.name, here)
        if source is None:
            if not field.nullable:
                raise SchemaError(
                    f"The column {here} is NOT NULL and missing from the rows.", column=here
                )
            return F.lit(None).cast(spark_type(field.type))
        return _Walk(here).fit(column(source.name), source.type, field.type)

    def fit(self, column: Column, source: DataType, target: DataType) -> Column:
        """Return a value of the target's type."""
        if bare_type(source) == bare_type(target):
            return column
        match source, target:
            case StructType(), StructType():
                return self._struct(column, source, target)
            case ArrayType(element=one), ArrayType(element=other):
                walk = _Walk(self.below("element"))
                return F.transform(column, lambda value: walk.fit(value, one, other))
            case MapType(), MapType():
                return self._map(column, source, target)
        if isinstance(target, StructType | ArrayType | MapType) and source.name != "void":
            raise self._misfit(source, target)
        if not is_widening(source, target):
            raise self._misfit(source, target)
        return column.cast(spark_type(target))

    def refuse_extra(self, given: StructType, table: StructType) -> None:
        known = {field.name.lower() for field in table.fields}
        extra = sorted(
            self.below(field.name) for field in given.fields if field.name.lower() not in known
        )
        if extra:
            raise SchemaError(
                f"The table has no column {', '.join(extra)}.",
                hint="Write with merge_schema=True to add it, or drop it from the DataFrame.",
                columns=extra,
            )

    def _struct(self, column: Column, source: StructType, target: StructType) -> Column:
        self.refuse_extra(source, target)
        members = [
            self.member(field, source, column.getField).alias(field.name) for field in target.fields
        ]
        # built from its parts, a null struct would become one of nulls
        return F.when(column.isNotNull(), F.struct(*members))

    def _map(self, column: Column, source: MapType, target: MapType) -> Column:
        keys, values = _Walk(self.below("key")), _Walk(self.below("value"))
        entry = F.map_entries(column)
        fitted = F.transform(
            entry,
            lambda one: F.struct(
                keys.fit(one.getField("key"), source.key, target.key).alias("key"),
                values.fit(one.getField("value"), source.value, target.value).alias("value"),
            ),
        )
        return F.map_from_entries(fitted)

    def _misfit(self, source: DataType, target: DataType) -> SchemaError:
        return SchemaError(
            f"The column {self.path} is of type {target.name} and cannot take values of type "
            f"{source.name}.",
            column=self.path,
        )


def _find(fields: Sequence[StructField], name: str, path: str) -> StructField | None:
    found = [field for field in fields if field.name.lower() == name.lower()]
    if len(found) > 1:
        raise SchemaError(f"The rows have {len(found)} columns named {path}.", column=path)
    return found[0] if found else None
