"""How a table is read: which version, which files, by whom they are scanned, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.catalog.snapshots import Snapshot
from deltasql.data.partitions import partition_fields
from deltasql.errors import CorruptDataError
from deltasql.protocol.columns import mapping_mode, physical_name
from deltasql.protocol.features import reader_features, require_readable
from deltasql.protocol.predicate import Predicate
from deltasql.protocol.values import parse_partition_value
from deltasql.storage.local import LocalStore
from deltasql.storage.paths import RelativeKey, resolve_path
from deltasql.storage.port import ObjectStore

Way = Literal["native", "delta", "python"]
Values = dict[str, str | None]
_COLUMNS = ("path", "size", "partition_values", "deletion_vector", "num_records")
# Spark looks at every file on the driver, one after the other, and at every directory.
_MOST_FILES = 20_000
_MOST_DIRECTORIES = 2_000
_LEADING = ("_", ".")
_AWKWARD = frozenset(":\n\r\\*?[]{}")


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What is read, and which way: by Spark's Parquet reader, by Delta's, or by ours in tasks.

    `predicate` is what files were chosen by; `rows` is how many are read, where SQL knows it.
    """

    table: str
    version: int
    files: pa.Table
    way: Way
    reason: str
    predicate: Predicate | None = None
    paths: tuple[str, ...] = ()
    directories: tuple[tuple[str, Values], ...] = ()
    rows: int | None = None

    @property
    def bytes(self) -> int:
        """The size of all files together."""
        return int(pc.sum(self.files["size"]).as_py() or 0)

    def __str__(self) -> str:
        count = self.files.num_rows
        return (
            f"{self.table} at version {self.version}: {count} files, {self.bytes} bytes, "
            f"read by {_NAMES[self.way]}: {self.reason}."
        )


_NAMES = {
    "native": "Spark's Parquet reader",
    "delta": "Delta's reader",
    "python": "deltasql in Spark's Python workers",
}


def plan_read(
    snapshot: Snapshot, store: ObjectStore, predicate: Predicate | None = None
) -> ReadPlan:
    """Choose the files of a snapshot that may hold what a filter wants, and the way to read them.

    Raises:
        UnsupportedFeatureError: the table needs a reader feature that deltasql lacks.
        VacuumedError: vacuum has deleted files of this version.
    """
    require_readable(snapshot.protocol, snapshot.table.full_name)
    snapshot.require_files()
    files = snapshot.files(_COLUMNS, where=predicate)
    told = (snapshot.table.full_name, snapshot.version, files)
    reason = _not_natively(snapshot, files, store)
    if reason is not None:
        return ReadPlan(*told, "python", reason, predicate)
    paths = [_local_path(path, store) for path in files["path"].to_pylist()]
    if None in paths:
        return ReadPlan(*told, "python", "a path is one that Spark reads otherwise", predicate)
    found = tuple(path for path in paths if path is not None)
    directories = _directories(found, files["partition_values"].to_pylist())
    if directories is None:
        reason = "a directory holds files of several partitions"
        return ReadPlan(*told, "python", reason, predicate)
    if len(directories) > _MOST_DIRECTORIES:
        return ReadPlan(*told, "python", f"there are {len(directories)} directories", predicate)
    _require_values(snapshot, directories)
    reason = "the table is plain Parquet"
    return ReadPlan(*told, "native", reason, predicate, found, tuple(directories.items()))


def _not_natively(snapshot: Snapshot, files: pa.Table, store: ObjectStore) -> str | None:
    if not isinstance(store, LocalStore):
        return "the table is not on local files"
    if pc.any(pc.is_valid(files["deletion_vector"])).as_py():
        return "rows are deleted by vectors"
    widened = {one for one in reader_features(snapshot.protocol) if one.startswith("typeWidening")}
    if widened:
        return "types of columns were widened"
    if mapping_mode(snapshot.metadata.configuration) == "id":
        return "columns are found by their ids"
    if files.num_rows > _MOST_FILES:
        return f"there are {files.num_rows} files"
    return None


def _local_path(path: str, store: ObjectStore) -> str | None:
    """Return where a file is, or None where Spark would skip it or take its name for a pattern."""
    place = resolve_path(path, allowed_roots=(store.uri,))
    names = place.key.split("/")
    if any(name.startswith(_LEADING) for name in names) or _AWKWARD & set(place.key):
        return None
    found = store.local_path(place.key) if isinstance(place, RelativeKey) else None
    return None if found is None or _AWKWARD & set(found) else found


def _directories(paths: tuple[str, ...], values: list[str]) -> dict[str, Values] | None:
    """Return the partition of each directory; None if one has several."""
    texts: dict[str, str] = {}
    for path, text in zip(paths, values, strict=True):
        if texts.setdefault(path.rpartition("/")[0], text) != text:
            return None
    return {place: _decoded(text) for place, text in texts.items()}


def require_values(snapshot: Snapshot, files: pa.Table) -> None:
    """Refuse files with a partition value that is none of its column's type.

    Raises:
        CorruptDataError: there is one; Delta's reader would take it for null.
    """
    texts = files["partition_values"].unique().to_pylist()
    _require_values(snapshot, {text: _decoded(text) for text in texts})


def _decoded(text: str) -> Values:
    return msgspec.json.decode(text, type=dict[str, str | None])


def _require_values(snapshot: Snapshot, directories: dict[str, Values]) -> None:
    """Refuse a value that is none of its column's type: Spark would take it for null."""
    mode = mapping_mode(snapshot.metadata.configuration)
    fields = partition_fields(snapshot.schema, snapshot.metadata.partition_columns)
    for place, values in directories.items():
        for field in fields:
            text = values.get(physical_name(field, mode))
            if text and parse_partition_value(text, field.type) is None:
                raise CorruptDataError(
                    f"The partition value {text!r} of the column {field.name} is no "
                    f"{field.type.name} ({place})."
                )
