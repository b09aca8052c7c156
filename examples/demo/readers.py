"""Other engines that read a Delta table from its `_delta_log`.

Each returns the number of rows and the sum of `amount`; one that is not installed says so.
"""

import importlib.util
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

Count = tuple[int, Decimal]
Read = Callable[[str], Count]


class MissingError(Exception):
    """A reader that is not installed here."""


def read_deltalake(location: str) -> Count:
    """Read with delta-rs."""
    _need("deltalake")
    import deltalake
    import pyarrow as pa

    # By its own engine: its PyArrow data sets may abort the interpreter when it exits.
    query = deltalake.QueryBuilder().register("demo", deltalake.DeltaTable(location))
    answer = query.execute("select count(*) as number, sum(amount) as total from demo")
    [found] = pa.table(answer.read_all()).to_pylist()
    return found["number"], _exact(found["total"])


def read_polars(location: str) -> Count:
    """Read with Polars."""
    _need("polars", "deltalake")
    import polars as pl

    columns = pl.len().alias("rows"), pl.col("amount").sum()
    found = pl.scan_delta(location).select(*columns).collect()
    return int(found["rows"][0]), _exact(found["amount"][0])


def read_duckdb(location: str) -> Count:
    """Read with DuckDB and its delta extension, from the wheel of the extension."""
    _need("duckdb", "duckdb_extension_delta")
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"load '{_extension()}'")
        query = "select count(*), sum(amount) from delta_scan(?)"
        rows: Any = connection.execute(query, [location]).fetchone()
    return int(rows[0]), _exact(rows[1])


READERS: dict[str, Read] = {
    "deltalake": read_deltalake,
    "polars": read_polars,
    "duckdb": read_duckdb,
}


def _need(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MissingError(f"{package} is not installed.")


def _extension() -> Path:
    spec = importlib.util.find_spec("duckdb_extension_delta")
    folder = Path(spec.origin).parent if spec and spec.origin else Path()
    found = sorted(folder.rglob("delta.duckdb_extension"))
    if not found:
        raise MissingError("duckdb_extension_delta holds no extension for this machine.")
    return found[0]


def _exact(total: Any) -> Decimal:
    return Decimal(0) if total is None else Decimal(str(total))
