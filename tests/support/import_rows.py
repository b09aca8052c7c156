"""Everything that the catalog has of one table, so that two imports can be compared row by row.

All columns of all relations are compared but those that a catalog gives out itself (ids), the
times of the import, and the compressed payloads, which are compared as the bytes they stand for.
"""

import json

import pyarrow as pa

from deltasql.testing import inspect

_OWN = {"table_id", "file_id", "stats_key", "created_at", "updated_at", "recorded_at", "payload"}
_OWN |= {"last_attempt_at", "next_attempt_at", "properties", "namespace", "name", "location"}
_OWN |= {"location_key", "table_key"}
_CHANGING = {"import_timestamp", "imported_at_ms", "source_uri", "validated_at"}
_COLUMNS = {
    "sqlite": "select m.name as relation, c.name as name from sqlite_master m, "
    "pragma_table_info(m.name) c where m.type = 'table' and substr(m.name, 1, 3) = 'dl_'",
    "postgres": "select table_name::text as relation, column_name::text as name from "
    "information_schema.columns join pg_tables on tablename = table_name "
    "and schemaname = table_schema where table_schema = current_schema() "
    "and substr(table_name, 1, 3) = 'dl_'",
}
_KEY = "(select k.table_key from dl_tables k where k.table_id = :table_id)"
_HASHES = {"file_key", "path_hash"}
_HASH = {"sqlite": "lower(hex({}))", "postgres": "coalesce(replace(cast({} as text), '-', ''), '')"}
_PLAIN = "cast({} as text)"
_STATS = ("dl_stats_num", "dl_stats_text")


def book_rows(catalog, table_id: str) -> dict[str, list]:
    """All rows of a table by relation, sorted, without ids and times of the import itself."""
    database = inspect(catalog).database
    relations = _relations(database)
    found = {
        name: _rows(database, f"select {{}} from {name} where {_place(names)}", names, table_id)
        for name, names in relations.items()
        if {"table_id", "table_key"}.intersection(names) and name != "dl_payload_chunks"
    }
    for kind in _STATS:
        found[kind] = _index(database, kind, relations["dl_stats_columns"], table_id)
    row = inspect(catalog).metastore.table_by_id(table_id)
    noted = row.properties.get("import_metadata", {})
    found["import_metadata"] = sorted((k, str(v)) for k, v in noted.items() if k not in _CHANGING)
    found["payloads"] = [
        inspect(catalog).metastore.payload(table_id, version)
        for version in range(row.oldest_version, row.current_version + 1)
    ]
    return found


def _place(names: list[str]) -> str:
    return "table_id = :table_id" if "table_id" in names else f"table_key = {_KEY}"


def _relations(database) -> dict[str, list[str]]:
    schema = pa.schema([("relation", pa.string()), ("name", pa.string())])
    found: dict[str, list[str]] = {}
    for row in database.arrow(_COLUMNS[database.dialect.name], {}, schema).to_pylist():
        found.setdefault(row["relation"], []).append(row["name"])
    return found


def _index(database, kind: str, names: list[str], table_id: str) -> list[str]:
    """The rows of an index of statistics, each with its column's and its file's own words."""
    files = " union all ".join(
        f"select file_id, path, dv_id, added_version from {relation}"
        for relation in ("dl_files", "dl_removed_files")
    )
    query = (
        f"select {{}} from {kind} s join dl_stats_columns c on c.stats_key = s.stats_key "
        f"join ({files}) f on f.file_id = s.file_id where c.table_key = {_KEY}"
    )
    columns = [f"c.{name}" for name in sorted(set(names) - _OWN)]
    own = ["f.path", "f.dv_id", "f.added_version", "s.low", "s.high"]
    return _rows(database, query, columns + own, table_id)


def _rows(database, query: str, names: list[str], table_id: str) -> list[str]:
    kept = [name for name in sorted(names) if name not in _OWN]
    plain = [name.replace(".", "_") for name in kept]
    pairs = zip(kept, plain, strict=True)
    spelling = _HASH[database.dialect.name]
    text = ", ".join(
        f"{(spelling if name in _HASHES else _PLAIN).format(name)} as {alias}"
        for name, alias in pairs
    )
    schema = pa.schema([(name, pa.string()) for name in plain])
    table = database.arrow(query.format(text), {"table_id": table_id}, schema)
    return sorted(json.dumps(_plain(row)) for row in table.to_pylist())


def _plain(row: dict) -> dict:
    """Booleans and the bounds of numbers are spelled differently by different databases."""
    plain = {key: {"true": "1", "false": "0"}.get(value, value) for key, value in row.items()}
    if row.get("c_kind") == "num" and "s_low" in row:
        plain |= {key: repr(float(row[key])) for key in ("s_low", "s_high")}
    return plain
