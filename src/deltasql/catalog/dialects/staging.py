"""Temporary tables that very many rows pass through; the words in which dialects differ."""

from __future__ import annotations

import pyarrow as pa

from deltasql.errors import CatalogError

SQLITE_WORDS = {
    "table_key": "(select k.table_key from dl_tables k where k.table_id = :table_id)",
    "uuid": "text",
    "hash": "blob",
    "hash:": "unhex({})",
    "time:": "{}",
    "long_ago": "0",
    "bytewise": "",
    "on_commit_drop": "",
    "for_no_key_update": "",
}
POSTGRES_WORDS = {
    "table_key": "(select k.table_key from dl_tables k where k.table_id = cast(:table_id as uuid))",
    "uuid": "uuid",
    "hash": "uuid",
    "hash:": "cast(cast({} as text) as uuid)",
    "time:": "to_timestamp(cast({} as bigint) / 1000.0)",
    "long_ago": "to_timestamp(0)",
    "bytewise": 'collate "C"',
    "on_commit_drop": "on commit drop",
    "for_no_key_update": "for no key update",
}


def without_nulls(rows: pa.Table) -> pa.Table:
    """Leave out the columns that say nothing: every value costs the driver, a null too."""
    kept = [name for name in rows.column_names if rows[name].null_count < rows.num_rows]
    return rows.select(kept)


def require_all(name: str, taken: int, given: int) -> None:
    """Make sure that a bulk load lost nothing on its way.

    Raises:
        CatalogError: it did.
    """
    if taken != given:
        raise CatalogError(f"{name}: the database took {taken} of {given} rows.")
