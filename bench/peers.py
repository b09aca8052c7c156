"""How the peers are opened: DuckDB with its extension wheels, DuckLake, pyiceberg."""

import datetime as dt
import importlib
from pathlib import Path
from typing import Any

from bench import synthetic

_SCANNERS = {"sqlite": "sqlite_scanner", "postgres": "postgres_scanner"}


def duck(backend: str) -> Any:
    """Return a DuckDB connection with DuckLake and the scanner of a catalog loaded."""
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in (_SCANNERS[backend], "ducklake"):
        connection.execute(f"LOAD '{_extension(name)}'")
    return connection


def _extension(name: str) -> Path:
    module = importlib.import_module(f"duckdb_extension_{name}")
    folder = Path(module.__file__).parent / "extensions"
    return next(folder.glob(f"*/{name}.duckdb_extension"))


def ducklake_attach(connection: Any, backend: str, place: dict[str, Any], inline: int = 0) -> None:
    """Attach a DuckLake catalog as `l`."""
    options = [f"DATA_PATH '{place['dir']}/data'", f"DATA_INLINING_ROW_LIMIT {inline}"]
    if backend == "postgres":
        where = f"postgres:{place['pg_words']}"
    else:
        where = f"sqlite:{place['dir']}/ducklake.sqlite"
    connection.execute(f"ATTACH 'ducklake:{where}' AS l ({', '.join(options)})")


def iceberg_catalog(folder: str) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog(
        "c", uri=f"sqlite:///{folder}/iceberg.db", warehouse=f"file://{folder}/warehouse"
    )


def iceberg_schema() -> tuple[Any, Any]:
    """Return the schema of the benchmark tables and their partitioning."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import DateType, DoubleType, LongType, NestedField, StringType

    fields = (
        NestedField(1, "id", LongType()),
        NestedField(2, "ts", StringType()),
        NestedField(3, "user_id", StringType()),
        NestedField(4, "amount", DoubleType()),
        NestedField(5, "note", StringType()),
        NestedField(6, "date", DateType()),
    )
    return Schema(*fields), PartitionSpec(PartitionField(6, 1000, IdentityTransform(), "date"))


def iceberg_file(i: int, n: int, folder: str) -> Any:
    """Return the entry of file i of n, with the same statistics as Delta's add."""
    from pyiceberg.conversions import to_bytes
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record
    from pyiceberg.types import DoubleType, LongType

    low, high, nulls = synthetic.bounds(i, n)

    def packed(values: dict[str, Any]) -> dict[int, bytes]:
        return {
            1: to_bytes(LongType(), values["id"]),
            2: values["ts"].encode(),
            3: values["user_id"].encode(),
            4: to_bytes(DoubleType(), float(values["amount"])),
            5: values["note"].encode(),
        }

    days = (synthetic.FIRST_DAY - dt.date(1970, 1, 1)).days + synthetic.day_number(i, n)
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{folder}/warehouse/{synthetic.path(i, n)}",
        file_format=FileFormat.PARQUET,
        partition=Record(days),
        record_count=synthetic.ROWS,
        file_size_in_bytes=synthetic.size(i),
        column_sizes={},
        value_counts={},
        null_value_counts=dict(enumerate(nulls.values(), 1)),
        nan_value_counts={},
        lower_bounds=packed(low),
        upper_bounds=packed(high),
        split_offsets=[4],
        equality_ids=None,
        sort_order_id=None,
    )
