"""A SQLite catalog with more files than commits could make in a few minutes.

The first files are committed and mirrored as always. The rows of the others are made inside SQL,
with texts of the same shape and numbers that do not repeat: enough for a checkpoint, which reads
nothing but them. What it does not read (commits' bytes, statistics' index) they do not have.
"""

from pathlib import Path
from typing import Any

from bench import ours, synthetic
from bench.child import call

COMMITTED = 100_000
_ADDS = 5_000
_INDEXES = "select name, sql from sqlite_master where type = 'index' and tbl_name = 'dl_files'"
# a to d are numbers of 32 bits that jump about, as a hash would
_ROWS = """
with recursive
numbers(i) as (select :first union all select i + 1 from numbers where i + 1 < :n),
mixed as (
    select
        i, date('2022-01-01', (i * 1000 / :n) || ' days') as day,
        i * 2654435761 % 4294967296 as a, i * 2246822519 % 4294967296 as b,
        i * 3266489917 % 4294967296 as c, i * 668265263 % 4294967296 as d
    from numbers
),
named as (
    select *, printf(
        'date=%s/part-%05d-%08x-%04x-4%03x-a%03x-%08x%04x-c000.snappy.parquet',
        day, i % 200, a, b % 65536, c % 4096, d % 4096, b, c / 65536
    ) as path
    from mixed
)
insert into dl_files (
    table_key, file_key, path, size, modification_time, partition_values, stats, num_records,
    data_change, added_version
)
select
    :table_key,
    file_key(path),
    path,
    8000000 + i * 7919 % 120000000,
    1700000000000 + i * 250,
    printf('{"date":"%s"}', day),
    printf(
        '{"numRecords":1000,"minValues":{"id":%d,"ts":"%sT00:00:%02d.%03dZ",'
        || '"user_id":"user-0000%04x","amount":%.4f,"note":"a%08x"},'
        || '"maxValues":{"id":%d,"ts":"%sT23:59:%02d.%03dZ","user_id":"user-ffff%04x",'
        || '"amount":%.4f,"note":"z%08x"},'
        || '"nullCount":{"id":0,"ts":0,"user_id":%d,"amount":0,"note":%d}}',
        i * 1000, day, a % 60, b % 997, c / 65536, d % 1000000 / 10000.0, b,
        i * 1000 + 999, day, c % 59, d % 991, a / 65536, 900 + c % 1000000 / 10000.0, d,
        i % 7, a % 13
    ),
    1000, 1, :version
from named
"""


def build(place: dict[str, Any], n: int) -> None:
    """In a child that has no other SQLite library: fill the table `t` up to n files."""
    import sqlite3

    from deltasql.protocol.actions import hash_key

    first = min(COMMITTED, n // 2)
    call("bench.bulk:commit", timeout=3600, place=place, n=n, first=first)
    connection = sqlite3.connect(Path(place["dir"]) / "catalog.db", isolation_level=None)
    connection.execute("pragma synchronous = off")
    connection.create_function("file_key", 1, lambda path: hash_key(path, ""), deterministic=True)
    query = "select table_key, max(added_version) from dl_files group by table_key"
    table_key, version = connection.execute(query).fetchone()
    indexes = connection.execute(_INDEXES).fetchall()
    connection.execute("begin")
    for name, _ in indexes:
        connection.execute(f"drop index {name}")
    values = {"first": first, "n": n, "table_key": table_key, "version": version}
    connection.execute(_ROWS, values)
    for _, text in indexes:
        connection.execute(text)
    connection.execute("commit")
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.close()


def commit(place: dict[str, Any], n: int, first: int) -> dict[str, Any]:
    """In a child: commit the first of n files and mirror the commits."""
    with ours.connect(place, "sqlite", "off") as catalog:
        location = f"{place['dir']}/table"
        table = catalog.create_table(
            "t", location=location, schema=synthetic.SCHEMA, partition_by=["date"]
        )
        for chunk in synthetic.chunks(first, _ADDS):
            table.commit([synthetic.add(i, n) for i in chunk])
    return ours.mirror_all(place, "sqlite")
