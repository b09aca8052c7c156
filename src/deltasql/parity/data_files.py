"""Are the live data files of a table on its store, with the sizes that the log records?

A recorded size that is too small makes Spark miss the row groups at the end of a file, without an
error; one that is too large costs a reader a request.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltasql.catalog.catalog import SqlCatalog
from deltasql.catalog.rows import TableRow
from deltasql.catalog.snapshots import Snapshot
from deltasql.errors import ObjectNotFoundError, UnsafePathError
from deltasql.parity.log import Difference, Finding
from deltasql.storage.paths import resolve_path
from deltasql.storage.port import ObjectStore


def compare_data_files(catalog: SqlCatalog, row: TableRow, store: ObjectStore) -> list[Finding]:
    """Return the files of the newest version that are missing or have another size.

    The store is listed once. Files outside of the table's root are not looked at.
    """
    recorded = _recorded_sizes(catalog.snapshot(row.table_id), store)
    for info in store.list_from(""):
        if recorded.get(info.key) == info.size:
            del recorded[info.key]
    if not recorded:
        return []
    # a file that a commit has removed since then may be gone by right
    live = _recorded_sizes(catalog.snapshot(row.table_id), store)
    suspects = {key: size for key, size in recorded.items() if live.get(key) == size}
    version = row.current_version
    return list(_findings(suspects, version, store))


def _recorded_sizes(snapshot: Snapshot, store: ObjectStore) -> dict[str, int]:
    files = snapshot.files(("path", "size"))
    pairs = zip(files["path"].to_pylist(), files["size"].to_pylist(), strict=True)
    found = ((_key(path, store), size) for path, size in pairs)
    return {key: size for key, size in found if key is not None}


def _key(path: str, store: ObjectStore) -> str | None:
    try:
        return resolve_path(path, allowed_roots=(store.uri,)).key
    except UnsafePathError:
        return None


def _findings(recorded: dict[str, int], version: int, store: ObjectStore) -> Iterator[Finding]:
    for key, size in recorded.items():
        try:
            stored = store.head(key).size
        except ObjectNotFoundError:
            yield Finding(Difference.MISSING_DATA_FILE, key, version, "is not there")
            continue
        if stored != size:
            detail = f"has {stored} bytes, SQL and the log record {size}"
            yield Finding(Difference.WRONG_DATA_SIZE, key, version, detail)
