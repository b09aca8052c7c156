"""The files of one version in an order that stays: by their times and paths, as Delta has it."""

from __future__ import annotations

import pyarrow as pa

from deltasql.client.table import Table
from deltasql.errors import VersionNotFoundError
from deltasql.spark.scan_tasks import CHANGED_FILES

_COLUMNS = ("path", "size", "partition_values", "deletion_vector", "modification_time")


def snapshot_files(table: Table, version: int) -> pa.Table:
    """Return the live files of a version as rows that were inserted by it.

    Raises:
        VersionNotFoundError: the book has forgotten the version.
        VacuumedError: vacuum has deleted files of it.
    """
    snapshot = table.snapshot(version)
    snapshot.require_files()
    files = snapshot.files(_COLUMNS).sort_by(
        [("modification_time", "ascending"), ("path", "ascending")]
    )
    row = table.refresh()
    if version < row.oldest_version:  # forgotten while the files were listed
        raise VersionNotFoundError(
            f"Table {row.full_name} has forgotten version {version}.",
            table=row.full_name,
            version=version,
        )
    count = files.num_rows
    constants = {
        "among": pa.nulls(count, pa.string()),
        "change": pa.repeat(pa.scalar("insert"), count),
        "version": pa.repeat(pa.scalar(version, pa.int64()), count),
        "timestamp": pa.repeat(pa.scalar(snapshot.timestamp, pa.int64()), count),
    }
    arrays = [
        constants[name] if name in constants else files.column(name) for name in CHANGED_FILES.names
    ]
    return pa.Table.from_arrays(arrays, schema=CHANGED_FILES)
