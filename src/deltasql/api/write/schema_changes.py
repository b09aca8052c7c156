"""Changes of a table's schema, and checks of the rows that are there against a new constraint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.api.write.operations import Planned
from deltasql.data.constraints import RowCheck, check_texts, enforce, to_check
from deltasql.data.scanner import OpenRoot, ScanSpec, scan_files
from deltasql.errors import (
    BadArgumentError,
    ConstraintViolationError,
    SchemaError,
    UnsupportedFeatureError,
)
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.protocol.actions import Add, Metadata
from deltasql.protocol.features import listed_features, with_features
from deltasql.protocol.predicate import columns_of, parse_predicate, surely_holds
from deltasql.protocol.properties import required_features
from deltasql.protocol.schema.arrow import from_arrow_schema
from deltasql.protocol.schema.columns import check_names, find_field, mapping_mode
from deltasql.protocol.schema.types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    parse_schema,
    print_schema,
)
from deltasql.protocol.stats.parse import parse_stats
from deltasql.storage.port import ObjectStore

SchemaMode = Literal["strict", "merge", "overwrite"]

_COLUMNS = ("path", "size", "partition_values", "deletion_vector", "stats")
_VALUES = msgspec.json.Decoder(dict[str, str | None])


def fitted_snapshot(
    snapshot: Snapshot, schema: pa.Schema | StructType, mode: SchemaMode
) -> Snapshot:
    """Return the snapshot with the schema that the write will leave behind.

    Raises:
        SchemaError: the change is one that this table cannot take.
    """
    if mode == "strict":
        return snapshot
    if mode not in {"merge", "overwrite"}:
        raise BadArgumentError(f"schema_mode is strict, merge or overwrite, not {mode!r}.")
    given = schema if isinstance(schema, StructType) else from_arrow_schema(schema)
    wanted = _merged(snapshot.schema, given) if mode == "merge" else _replaced(snapshot, given)
    if wanted == snapshot.schema:
        return snapshot
    if mapping_mode(snapshot.metadata.configuration) != "none":
        raise SchemaError("The schema of a table with column mapping is changed by Delta Spark.")
    check_names(wanted, before=snapshot.schema)
    metadata = msgspec.structs.replace(snapshot.metadata, schema_string=print_schema(wanted))
    return _with_metadata(snapshot, metadata)


def require_replaced(snapshot: Snapshot, staying: Add | None) -> None:
    """Refuse another schema while a file of the old one stays: nobody could read both.

    Raises:
        SchemaError: names the file.
    """
    if staying is not None:
        raise SchemaError(
            f"The schema of {snapshot.table.full_name} cannot be replaced: the rows in "
            f"{staying.path} stay.",
            hint="Overwrite all rows to replace the schema, or add columns with "
            'schema_mode="merge".',
            table=snapshot.table.full_name,
        )


def _with_metadata(snapshot: Snapshot, metadata: Metadata) -> Snapshot:
    listed = listed_features(snapshot.protocol)
    protocol = with_features(snapshot.protocol, required_features(metadata, listed))
    definition = replace(snapshot.definition, metadata=metadata, protocol=protocol)
    return replace(snapshot, definition=definition)


def _merged(schema: StructType, given: StructType) -> StructType:
    """Return the columns with new ones behind them, at every depth."""
    kept = [_merged_field(field, find_field(given, field.name)) for field in schema.fields]
    new = [field for field in given.fields if find_field(schema, field.name) is None]
    nullable = [replace(field, nullable=True) for field in new]
    return StructType((*kept, *nullable))


def _merged_field(field: StructField, given: StructField | None) -> StructField:
    if given is None:
        return field
    kind = _merged_type(field.type, given.type)
    return field if kind == field.type else replace(field, type=kind)


def _merged_type(kind: DataType, given: DataType) -> DataType:
    match kind, given:
        case StructType(), StructType():
            return _merged(kind, given)
        case ArrayType(element=mine), ArrayType(element=other):
            return replace(kind, element=_merged_type(mine, other))
        case MapType(key=key, value=mine), MapType(value=other):
            return MapType(key, _merged_type(mine, other), kind.value_contains_null)
    return kind


def _replaced(snapshot: Snapshot, given: StructType) -> StructType:
    for name in snapshot.metadata.partition_columns:
        if find_field(given, name) is None:
            raise SchemaError(f"The new schema lacks the partition column {name}.", column=name)
    return given


@dataclass(frozen=True, slots=True)
class RowsInPlace:
    """The rows of a table before its metadata changes."""

    snapshot: Snapshot
    store: ObjectStore
    open_root: OpenRoot

    def checked(self, planned: Planned) -> Planned:
        """Return the plan if every row keeps to the constraints that it adds.

        The plan has read the whole table then: rows that come meanwhile are a conflict.

        Raises:
            ConstraintViolationError: a row breaks one.
            UnsupportedFeatureError: only Spark's SQL can judge one, and there are rows.
        """
        after = next((a for a in planned.actions if isinstance(a, Metadata)), None)
        texts = [] if after is None else _added(self.snapshot.metadata, after)
        if after is None or not texts:
            return planned
        schema = parse_schema(after.schema_string)
        for batch in self.snapshot.files(_COLUMNS).to_batches():
            for name, text in texts:
                self._require(name, text, schema, batch)
        return replace(planned, read=replace(planned.read, whole_table=True))

    def _require(self, name: str, text: str, schema: StructType, files: pa.RecordBatch) -> None:
        check = self._check(name, text, schema)
        mode = mapping_mode(self.snapshot.metadata.configuration)
        predicate = parse_predicate(text, schema, mode)
        doubtful = pa.array(
            [
                not surely_holds(predicate, parse_stats(stats), _VALUES.decode(values or "{}"))
                for stats, values in zip(
                    files["stats"].to_pylist(), files["partition_values"].to_pylist(), strict=True
                )
            ],
            pa.bool_(),
        )
        if not pc.any(doubtful).as_py():
            return
        names = sorted({column.path[0] for column in columns_of(predicate)})
        for rows in self._rows(files.filter(doubtful), schema, names):
            try:
                enforce([check], rows)
            except ConstraintViolationError as error:
                raise ConstraintViolationError(
                    f"Table {self.snapshot.table.full_name} has rows that break the constraint "
                    f"{name} ({text}).",
                    hint="Nothing was changed; correct or delete the rows first.",
                    constraint=name,
                ) from error

    def _check(self, name: str, text: str, schema: StructType) -> RowCheck:
        try:
            return to_check(name, text, schema)
        except UnsupportedFeatureError as error:
            raise UnsupportedFeatureError(
                error.message,
                hint="Add the constraint by ALTER TABLE in a transaction of deltasql.spark, which "
                "checks the rows, or before the first rows are written.",
                constraint=name,
            ) from error

    def _rows(
        self, files: pa.RecordBatch, schema: StructType, names: list[str]
    ) -> Iterator[pa.RecordBatch]:
        metadata = self.snapshot.metadata
        roots = (self.snapshot.table.location,)
        spec = ScanSpec(
            schema, metadata.partition_columns, metadata.configuration, roots, self.open_root
        )
        return scan_files(pa.Table.from_batches([files]), spec, self.store, columns=names)


def _added(before: Metadata, after: Metadata) -> list[tuple[str, str]]:
    """Return the checks that the table did not have before, or had with another text."""
    old = check_texts(parse_schema(before.schema_string), before.configuration)
    new = check_texts(parse_schema(after.schema_string), after.configuration)
    return [check for check in new if check not in old]
