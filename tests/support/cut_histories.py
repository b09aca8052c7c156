"""Logs a day per version, and what a catalog has of some of their versions."""

import os
import re
from pathlib import Path

import pyarrow as pa

import deltasql
from deltasql.imports.job import Imported, ImportOptions, TableImport
from deltasql.log.checkpoint_writer import CheckpointWriter
from deltasql.metastore.snapshot.checkpoint_source import CheckpointSource
from deltasql.mirror.checkpoints.check import WrittenRows
from deltasql.mirror.checkpoints.write import checkpoint_rows
from deltasql.protocol.checkpoint.layout import CheckpointShape
from deltasql.protocol.log_names import checkpoint_path, commit_key
from deltasql.testing import inspect
from histories import START, History

DAY = 24 * 3600 * 1000
_DELETED = re.compile(rb'"deletionTimestamp": (\d+)')
_FILES = ("path", "dv_id", "size", "num_records", "partition_values", "modification_time")


def daily_log(root: Path, seed: int, versions: int = 30, *, vectors: bool = False) -> Path:
    """Write a log whose commits and removes are a day apart."""
    history = History(seed, versions=versions, vectors=vectors)
    history.commits = [_DELETED.sub(_daily, payload) for payload in history.commits]
    history.write(root)
    for version in range(versions):
        seconds = (START + version * DAY) / 1000
        os.utime(root / commit_key(version), (seconds, seconds))
    return root


def _daily(found: re.Match[bytes]) -> bytes:
    return b'"deletionTimestamp": %d' % (START + (int(found[1]) - START) * DAY)


def whole_checkpoint(root: Path, version: int) -> Path:
    """Put a checkpoint with all tombstones of its time; deltalake drops those that are old now."""
    place = root / checkpoint_path(version)
    with deltasql.connect(f"deltasql://sqlite/{root.parent}/scratch-{version}.db") as catalog:
        row = do_import(catalog, root).row
        connection = inspect(catalog).connection
        source = CheckpointSource(connection.metastore.snapshot(row.table_id, version=version))
        shape = CheckpointShape(source.snapshot.metadata, source.snapshot.protocol)
        writer = CheckpointWriter(connection.store_of(row))
        rows = checkpoint_rows(source, shape, WrittenRows(writer.group_rows))
        with writer.spool(version, shape.schema, rows) as (_, path):
            place.write_bytes(path.read_bytes())
    return place


def do_import(catalog, root: Path, name: str = "t", **options) -> Imported:
    return TableImport(
        catalog._lazy.create().connection, str(root), name, ImportOptions(**options)
    ).run()


def versions_of(catalog, name: str, first: int) -> dict[int, tuple]:
    """All that SQL says of the versions from one on: what a reader, a writer and a mirror see."""
    row = inspect(catalog).metastore.table(name)
    entries = {entry.version: entry for entry in inspect(catalog).metastore.history(row.table_id)}
    return {
        version: _version_of(catalog, row, version, entries[version])
        for version in range(first, row.current_version + 1)
    }


def _version_of(catalog, row, version: int, entry) -> tuple:
    book = inspect(catalog).metastore
    snapshot = book.snapshot(row.table_id, version=version)
    files = snapshot.files(_FILES).to_pylist()
    with CheckpointSource(snapshot).read() as read:
        tombstones = [one for batch in read.removes(["path", "dv_id"]) for one in batch.to_pylist()]
    return (
        sorted(tuple(map(str, file.values())) for file in files),
        sorted(tuple(one.values()) for one in tombstones),
        snapshot.metadata,
        snapshot.protocol,
        sorted((txn.app_id, txn.version, txn.last_updated) for txn in snapshot.txns()),
        sorted((one.domain, one.configuration) for one in snapshot.domains()),
        (entry.committed_at, entry.operation, entry.adds, entry.removes, entry.digest),
        book.payload(row.table_id, version),
    )


def removed_through(catalog, name: str) -> list[int]:
    """The versions that removed the files that SQL still has as removed."""
    row = inspect(catalog).metastore.table(name)
    text = f"select removed_version from dl_removed_files where table_key = {row.table_key}"
    schema = pa.schema([("removed_version", pa.int64())])
    found = inspect(catalog).database.arrow(text, {}, schema)
    return sorted(set(found["removed_version"].to_pylist()))
