"""Data and queries of TPC-DS, from DuckDB's extension."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

from readers import Rows, require

# The smallest at which the queries that once went wrong return rows.
SCALE = 0.02
# Six queries that lost rows when filters stayed with the DataFrame they were pushed to.
WENT_WRONG = (2, 11, 14, 59, 74, 75)
_LIMIT = re.compile(r"\s*LIMIT\s+\d+\s*;?\s*$", re.IGNORECASE)


def generate(place: Path) -> tuple[list[str], dict[int, str]]:
    """Write every table as a Parquet file; return the names of the tables and the queries.

    The last LIMIT of a query is left out: which of several equal rows it keeps is chance.
    """
    try:
        import duckdb
        import duckdb_extension_tpcds
    except ImportError as error:
        require("duckdb", str(error))
    package = Path(duckdb_extension_tpcds.__file__).parent
    extension = next(package.rglob("tpcds.duckdb_extension"))
    with duckdb.connect() as connection:
        connection.execute(f"load '{extension}'")
        connection.execute(f"call dsdgen(sf={SCALE})")
        names = [row[0] for row in connection.execute("select name from (show tables)").fetchall()]
        for name in names:
            connection.execute(f"copy {name} to '{place / name}.parquet' (format parquet)")
        found = connection.execute("select query_nr, query from tpcds_queries()").fetchall()
    return names, {number: _LIMIT.sub("", text) for number, text in found}


def answer(session: Any, query: str) -> Rows:
    """Return what a query returns, in an order of its own; sums of doubles depend on theirs."""
    table = session.sql(query).toArrow()
    named = [f"{at}" for at in range(table.num_columns)]
    rows = table.rename_columns(named).to_pylist()
    rounded = [{key: _rounded(value) for key, value in row.items()} for row in rows]
    return sorted(rounded, key=str)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.9g}")
    return value.normalize() if isinstance(value, Decimal) else value
