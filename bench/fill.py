"""A catalog of very many files, filled inside SQL, as if commits had made it.

deltasql makes the schema and the tables; the rows of their versions, files, removed files,
partitions, statistics and mirror queue are written by SQL, table by table, so that every index
grows as it would under commits. A file in six has been removed. Tables are opened, planned,
committed to, read at old versions and checkpointed as any other.

Two things are left out unless `is_complete`: the bytes of the commits (so nothing of a big fill can
be mirrored, verified or exported; all of it counts as mirrored) and, on PostgreSQL, which cannot
compute BLAKE2b, the `file_key` of all files but the first `KEYED` of each table: the others have a
unique filler, and cannot be removed or added again.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import ours, synthetic
from bench.child import call

KEYED = 2_000
_SQL = Path(__file__).with_name("fill.sql")
# Files of a table that were ever there, for each five that are live; see fill.sql.
_EVER = 6
_STEPS = ("files", "removed", "partitions", "number", "day", "user", "amount")
_LAST = ("versions", "queue", "table")


@dataclass(frozen=True)
class Filled:
    """One table to fill: how many live files, in commits and partitions of which size."""

    name: str
    files: int
    adds: int = 100
    per_partition: int = 1_000

    @property
    def ever(self) -> int:
        """The files that the table ever had."""
        return self.files * _EVER // (_EVER - 1)

    @property
    def last_version(self) -> int:
        """Its newest version: the last ones only remove."""
        return 1 + (self.ever - 1) // self.adds + 50


def spread(big: int, others: int, each: int) -> list[Filled]:
    """Return one big table, `t`, and many smaller ones."""
    return [Filled("t", big), *(Filled(f"o.t{number}", each) for number in range(others))]


def fill(
    place: dict[str, Any], backend: str, tables: list[Filled], *, is_complete: bool = False
) -> None:
    """Make the tables and fill them; a catalog that has others already grows by these."""
    told = [vars(table) for table in tables]
    more = {"place": place, "backend": backend, "tables": told, "is_complete": is_complete}
    call("bench.fill:create", timeout=7200, **more)
    call("bench.fill:write", timeout=36_000, **more)


def create(
    place: dict[str, Any], backend: str, tables: list[dict[str, Any]], is_complete: bool
) -> dict[str, Any]:
    """In a child: make the tables; their first version is mirrored, unless all are to be."""
    with ours.connect(place, backend, "off") as catalog:
        for table in tables:
            catalog.create_table(
                table["name"],
                location=f"{place['dir']}/lake/{table['name']}",
                schema=synthetic.SCHEMA,
                partition_by=["date"],
            )
    if not is_complete:
        with ours.connect(place, backend, "worker") as catalog:
            catalog.mirror.run_once()  # what a fill before left without bytes stays behind
    return {}


def write(
    place: dict[str, Any], backend: str, tables: list[dict[str, Any]], is_complete: bool
) -> dict[str, Any]:
    """In a child that has no other SQLite library: write the rows of the tables."""
    texts = _statements(backend)
    with _open(place, backend) as database:
        known = _tables(database)
        for each in tables:
            table = Filled(**each)
            _write(database, texts, table, known[table.name], is_complete)
        database.finish()
    return {}


def _write(
    database: Any, texts: dict[str, str], table: Filled, row: dict[str, Any], is_complete: bool
) -> None:
    advance = "update dl_counters set value = value + :ever where name = 'file_id' returning value"
    (end,) = database.one(advance, {"ever": table.ever})
    values = {
        **row,
        "ever": table.ever,
        "first": end - table.ever,
        "adds": table.adds,
        "last": table.last_version,
        "per_partition": table.per_partition * _EVER // (_EVER - 1),
        "mirrored": -1 if is_complete else table.last_version,
    }
    for name in (*_STEPS, *_LAST):
        database.run(texts[name], values)
    keyed = table.ever if is_complete else KEYED
    database.set_keys(values["first"], values["first"] + keyed)
    if is_complete:
        _write_payloads(database, row, table)
    database.commit()


def _statements(backend: str) -> dict[str, str]:
    """Return the statements of fill.sql in the words of one database."""
    words = {
        "sqlite": {
            "numbers": "(with recursive n(i) as (select 0 union all select i + 1 from n "
            "where i + 1 < :ever) select i from n)",
            "versions": "(with recursive n(v) as (select 1 union all select v + 1 from n "
            "where v < :last) select v from n)",
            "hex8": "printf('%08x', {})",
            "hex4": "printf('%04x', {})",
            "five": "printf('%05d', {})",
            "day": "date('2022-01-01', (i / :per_partition % 1000) || ' days')",
            "key": "file_key({})",
            "true": "1",
            "false": "0",
            "id": "lower(hex(randomblob(16)))",
            "digest": "lower(hex(randomblob(32)))",
            "table_id": ":table_id",
            "time": "{}",
        },
        "postgres": {
            "numbers": "(select i from generate_series(0, :ever::bigint - 1) i)",
            "versions": "(select v from generate_series(1, :last::bigint) v)",
            "hex8": "lpad(to_hex({}), 8, '0')",
            "hex4": "lpad(to_hex({}), 4, '0')",
            "five": "lpad(({})::text, 5, '0')",
            "day": "(date '2022-01-01' + (i / :per_partition::bigint % 1000)::int)::text",
            "key": "md5({})::uuid",
            "true": "true",
            "false": "false",
            "id": "gen_random_uuid()::text",
            "digest": "encode(sha256(gen_random_uuid()::text::bytea), 'hex')",
            "table_id": ":table_id::uuid",
            "time": "to_timestamp({} / 1000.0)",
        },
    }[backend]
    parts = _SQL.read_text(encoding="utf-8").split("-- name: ")[1:]
    texts = {name: text.strip() for name, _, text in (part.partition("\n") for part in parts)}
    words["rows"] = texts.pop("rows")
    return {name: _in_words(_in_words(text, words), words) for name, text in texts.items()}


def _in_words(text: str, words: dict[str, str]) -> str:
    """Replace {word} and {word:argument}; an argument has no braces in it."""

    def word(found: re.Match[str]) -> str:
        return words[found[1]].replace("{}", found[2] or "") if found[1] in words else found[0]

    return re.sub(r"\{(\w+)(?::([^{}]*))?\}", word, text)


def _tables(database: Any) -> dict[str, dict[str, Any]]:
    query = "select namespace, name, table_id, table_key, last_ict from dl_tables"
    stats = "select table_key, column_name, stats_key from dl_stats_columns"
    keys: dict[int, dict[str, int]] = {}
    for table_key, column, stats_key in database.all(stats):
        keys.setdefault(table_key, {})[f"key_{column}"] = stats_key
    return {
        f"{space}.{name}" if space else name: {
            "table_id": str(table_id),
            "table_key": key,
            "start": start,
            **keys.get(key, {}),  # a purged table has none
        }
        for space, name, table_id, key, start in database.all(query)
    }


def key_of(path: str) -> bytes:
    """Return the file_key of a relative path without a deletion vector; a test compares it."""
    return hashlib.blake2b(f"{path}\0".encode(), digest_size=16).digest()


def _write_payloads(database: Any, row: dict[str, Any], table: Filled) -> None:
    """Give every version the bytes of its commit, and its row in the queue their digest."""
    live = "path, partition_values, size, modification_time, stats, added_version"
    ended = f"{live}, removed_version, deletion_timestamp"
    where = f"where table_key = {row['table_key']} order by file_id"
    files = [(*each, None, None) for each in database.all(f"select {live} from dl_files {where}")]
    files += database.all(f"select {ended} from dl_removed_files {where}")
    lines: dict[int, list[str]] = {v: [] for v in range(1, table.last_version + 1)}
    for path, values, size, modified, stats, added, removed, at in files:
        base = {"path": path, "partitionValues": json.loads(values), "size": size}
        add = {**base, "modificationTime": modified, "dataChange": True, "stats": stats}
        lines[added].append(_line({"add": add}))
        if removed is not None:
            gone = {"deletionTimestamp": at, "dataChange": True, "extendedFileMetadata": True}
            lines[removed].append(_line({"remove": {**base, **gone}}))
    query = f"select version, committed_at from dl_table_versions where {database.of_table(row)}"
    for version, at in database.all(query):
        if version in lines:
            info = {"timestamp": at, "operation": "WRITE", "inCommitTimestamp": at}
            text = "".join([_line({"commitInfo": info}), *lines[version]]).encode()
            database.set_payload(row, version, text, hashlib.sha256(text).hexdigest())


def _line(action: dict[str, Any]) -> str:
    return json.dumps(action, separators=(",", ":")) + "\n"


def _open(place: dict[str, Any], backend: str) -> Any:
    return _Sqlite(place) if backend == "sqlite" else _Postgres(place)


class _Sqlite:
    """The file of a catalog, through Python's own library."""

    def __init__(self, place: dict[str, Any]) -> None:
        import sqlite3

        self._connection = sqlite3.connect(Path(place["dir"]) / "catalog.db", isolation_level=None)
        self._connection.create_function("file_key", 1, key_of, deterministic=True)
        for setting in ("synchronous = off", "cache_size = -500000", "temp_store = memory"):
            self._connection.execute(f"pragma {setting}")
        self._connection.execute("begin")

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def run(self, text: str, values: dict[str, Any]) -> None:
        self._connection.execute(text, values)

    def one(self, text: str, values: dict[str, Any]) -> Any:
        return self._connection.execute(text, values).fetchone()

    def all(self, text: str) -> Iterable[Any]:
        return self._connection.execute(text).fetchall()

    def of_table(self, row: dict[str, Any]) -> str:
        return f"table_id = '{row['table_id']}'"

    def set_keys(self, first: int, end: int) -> None:
        """Do nothing: all keys are right."""

    def set_payload(self, row: dict[str, Any], version: int, text: bytes, digest: str) -> None:
        of = f"where {self.of_table(row)} and version = {version}"
        update = f"update dl_table_versions set payload = ?, payload_bytes = ?, digest = ? {of}"
        self._connection.execute(update, (text, len(text), digest))
        self._connection.execute(f"update dl_mirror_status set digest = ? {of}", (digest,))

    def commit(self) -> None:
        self._connection.execute("commit")
        self._connection.execute("begin")

    def finish(self) -> None:
        self._connection.execute("commit")
        self._connection.execute("pragma wal_checkpoint(truncate)")


class _Postgres:
    """The database of a catalog."""

    def __init__(self, place: dict[str, Any]) -> None:
        import psycopg

        self._connection = psycopg.connect(place["pg_dsn"], cursor_factory=psycopg.ClientCursor)
        self._connection.execute("set search_path to deltasql")
        self._connection.execute("set synchronous_commit = off")
        self._connection.execute("set work_mem = '256MB'")
        self._connection.execute("set max_parallel_workers_per_gather = 0")

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def run(self, text: str, values: dict[str, Any]) -> None:
        self._execute(text, values)

    def one(self, text: str, values: dict[str, Any]) -> Any:
        return self._execute(text, values).fetchone()

    def all(self, text: str) -> Iterable[Any]:
        return self._connection.execute(text).fetchall()

    def _execute(self, text: str, values: dict[str, Any]) -> Any:
        named = re.sub(r"(?<!:):([a-z]\w*)", r"%(\1)s", text.replace("%", "%%"))
        return self._connection.execute(named, values)

    def of_table(self, row: dict[str, Any]) -> str:
        return f"table_id = '{row['table_id']}'::uuid"

    def set_keys(self, first: int, end: int) -> None:
        """Give the files of these numbers the keys that the product computes."""
        for name in ("dl_files", "dl_removed_files"):
            span = f"where file_id >= {first} and file_id < {end}"
            found = self.all(f"select file_id, path from {name} {span}")
            ids = [number for number, _ in found]
            keys = [key_of(path).hex() for _, path in found]
            update = f"""update {name} f set file_key = u.k
                from unnest(%s::bigint[], %s::text[]::uuid[]) u (i, k) where f.file_id = u.i"""
            self._connection.execute(update, (ids, keys))

    def set_payload(self, row: dict[str, Any], version: int, text: bytes, digest: str) -> None:
        of = f"where {self.of_table(row)} and version = {version}"
        update = f"update dl_table_versions set payload = %s, payload_bytes = %s, digest = %s {of}"
        self._connection.execute(update, (text, len(text), digest))
        self._connection.execute(f"update dl_mirror_status set digest = %s {of}", (digest,))

    def commit(self) -> None:
        self._connection.commit()

    def finish(self) -> None:
        self._connection.commit()
        self._connection.autocommit = True
        self._connection.execute("vacuum analyze")
