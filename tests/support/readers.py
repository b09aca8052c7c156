"""Independent readers of a Delta log; each returns the rows as a sorted list of dicts.

Delta Spark is one too, in delta_spark.py: its session is dear, so it has a test file of its own.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Rows = list[dict[str, Any]]


def require(name: str, reason: str) -> None:
    """Skip a reader that cannot be had; fail where the run demands it."""
    if name in os.environ.get("DELTASQL_REQUIRE_SERVERS", "").split():
        pytest.fail(f"{name} is required here: {reason}")
    pytest.skip(f"no {name}: {reason}")


def read_deltalake(uri: str, options: dict[str, str] | None = None, version=None) -> Rows:
    try:
        import deltalake
    except ImportError as error:
        require("deltalake", str(error))
    table = deltalake.DeltaTable(uri, version=version, storage_options=options)
    return sort_rows(table.to_pyarrow_table().to_pylist())


def read_polars(uri: str, options: dict[str, str] | None = None, version=None) -> Rows:
    try:
        import polars as pl
    except ImportError as error:
        require("polars", str(error))
    frame = pl.scan_delta(uri, version=version, storage_options=options).collect()
    return sort_rows(frame.to_dicts())


def read_duckdb(uri: str, options: dict[str, str] | None = None) -> Rows:
    try:
        import duckdb
        import duckdb_extension_delta
    except ImportError as error:
        require("duckdb", str(error))
    place = Path(duckdb_extension_delta.__file__).parent
    extension = next(place.rglob("delta.duckdb_extension"))
    with duckdb.connect() as connection:
        connection.execute(f"load '{extension}'")
        if options:
            _duckdb_secret(connection, options)
        found = connection.execute("select * from delta_scan(?)", [uri]).to_arrow_table()
    return sort_rows(found.to_pylist())


def _duckdb_secret(connection: Any, options: dict[str, str]) -> None:
    import duckdb_extension_httpfs

    httpfs = next(Path(duckdb_extension_httpfs.__file__).parent.rglob("httpfs.duckdb_extension"))
    connection.execute(f"load '{httpfs}'")
    endpoint = options["AWS_ENDPOINT_URL"].removeprefix("http://")
    connection.execute(
        "create secret (type s3, key_id ?, secret ?, region ?, endpoint ?, "
        "url_style 'path', use_ssl false)",
        [
            options["AWS_ACCESS_KEY_ID"],
            options["AWS_SECRET_ACCESS_KEY"],
            options["AWS_REGION"],
            endpoint,
        ],
    )


def sort_rows(rows: Rows) -> Rows:
    plain = [dict(sorted(row.items())) for row in rows]
    return sorted(plain, key=lambda row: [(value is None, str(value)) for value in row.values()])


READERS: dict[str, Callable[..., Rows]] = {
    "deltalake": read_deltalake,
    "polars": read_polars,
    "duckdb": read_duckdb,
}


def read_deltasql(table: Any, **choice: Any) -> Rows:
    return sort_rows(table.scan(**choice).to_arrow().to_pylist())
