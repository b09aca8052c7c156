"""Scan: rows of one snapshot, read when asked for, in the form the caller likes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from deltasql.data.scanner import OpenRoot, ScanSpec, output_schema, scan_files
from deltasql.errors import CorruptDataError, MissingExtraError
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.protocol.features import require_readable
from deltasql.storage.port import ObjectStore

SCAN_COLUMNS = ("path", "size", "partition_values", "deletion_vector")


@dataclass(frozen=True, slots=True)
class Scan:
    """What to read of a table; nothing is read before one of the methods is called.

    `files` is the list of files where it is not that of the snapshot: inside a transaction.
    """

    snapshot: Snapshot
    store: ObjectStore = field(repr=False)
    columns: tuple[str, ...] | None = None
    where: str | None = None
    allowed_roots: tuple[str, ...] = ()
    open_root: OpenRoot | None = field(default=None, repr=False)
    files: pa.Table | None = field(default=None, repr=False)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches, in bounded memory.

        Raises:
            UnsupportedFeatureError: the table needs a reader feature that deltasql lacks.
            VacuumedError: vacuum has deleted files of this version.
        """
        require_readable(self.snapshot.protocol, self.snapshot.table.full_name)
        self.snapshot.require_files()
        files = self.files
        batches = scan_files(
            self.snapshot.files(SCAN_COLUMNS, where=self.where) if files is None else files,
            self._spec,
            self.store,
            columns=self.columns,
            predicate=self.snapshot.predicate(self.where),
        )
        return self._unless_vacuumed(batches)

    def _unless_vacuumed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches; where a file is missing, tell whether vacuum has deleted it."""
        try:
            yield from batches
        except CorruptDataError:
            self.snapshot.refuse_vacuumed()
            raise

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as an Arrow stream."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return self.to_reader().read_all()

    def to_polars(self) -> Any:
        """Return the rows as a Polars data frame."""
        try:
            import polars as pl  # noqa: PLC0415 (optional)
        except ModuleNotFoundError as error:
            raise MissingExtraError("Polars is not installed (deltasql[polars]).") from error
        return pl.from_arrow(self.to_arrow())

    def to_duckdb(self, connection: Any = None) -> Any:
        """Return the rows as a DuckDB relation, on a connection of the caller's or a new one."""
        try:
            import duckdb  # noqa: PLC0415 (optional)
        except ModuleNotFoundError as error:
            raise MissingExtraError("DuckDB is not installed (deltasql[duckdb]).") from error
        return (connection or duckdb.connect()).from_arrow(self.to_arrow())

    def to_pandas(self) -> Any:
        """Return the rows as a pandas data frame."""
        try:
            import pandas  # noqa: PLC0415, ICN001, F401 (optional; Arrow does the work)
        except ModuleNotFoundError as error:
            raise MissingExtraError("pandas is not installed (deltasql[pandas]).") from error
        return self.to_arrow().to_pandas()

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return output_schema(self._spec, self.columns)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    @property
    def _spec(self) -> ScanSpec:
        metadata = self.snapshot.metadata
        return ScanSpec(
            self.snapshot.schema,
            metadata.partition_columns,
            metadata.configuration,
            self.allowed_roots,
            self.open_root,
        )
