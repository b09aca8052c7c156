"""A new constraint holds for the rows that are there: by statistics, or by reading them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.catalog.snapshots import Snapshot
from deltasql.client.plans import Planned
from deltasql.data.constraints import RowCheck, check_texts, enforce, to_check
from deltasql.data.scan import OpenRoot, ScanSpec, scan_files
from deltasql.errors import ConstraintViolationError, UnsupportedFeatureError
from deltasql.protocol.actions import Metadata
from deltasql.protocol.columns import mapping_mode
from deltasql.protocol.predicate import columns_of, parse_predicate, surely_holds
from deltasql.protocol.schema import StructType, parse_schema
from deltasql.protocol.stats import parse_stats
from deltasql.storage.port import ObjectStore

_COLUMNS = ("path", "size", "partition_values", "deletion_vector", "stats")
_VALUES = msgspec.json.Decoder(dict[str, str | None])


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
