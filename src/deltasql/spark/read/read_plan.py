"""How a table is read: which version, which files, by which scan, and which filters skip files.

Pure: which filters mean to Spark what they mean to SQL; by others, SQL does not skip files. Spark
fills the texts of a char(n) up with blanks when it reads and compares them, a collation may take
capital letters for small ones, and a partition of NaN is greater than any number. NaN inside of
files is another matter: Spark's own reader, as Delta's, skips by bounds that do not know of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.data.partitions import partition_fields
from deltasql.errors import CorruptDataError
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.protocol.features import reader_features, require_readable
from deltasql.protocol.predicate import And, Predicate, columns_of
from deltasql.protocol.predicate.ast import Column, ColumnComparison, Comparison, Not, Or
from deltasql.protocol.predicate.parser import UnderstoodFilter, parse_understood
from deltasql.protocol.schema.columns import find_field, mapping_mode, physical_name
from deltasql.protocol.schema.types import TYPE_TEXT, StructField, StructType
from deltasql.protocol.values import FLOATS, parse_partition_value
from deltasql.storage.local import LocalStore
from deltasql.storage.paths import RelativeKey, resolve_path
from deltasql.storage.port import ObjectStore

_COLLATIONS = "__COLLATIONS"
_CHAR = re.compile(r"(?<!var)char\(")

Way = Literal["native", "delta", "python"]
Values = dict[str, str | None]
_COLUMNS = ("path", "size", "partition_values", "deletion_vector", "num_records")

# Spark looks at every file on the driver, one after the other, and at every directory.
_MOST_FILES = 20_000
_MOST_DIRECTORIES = 2_000
_LEADING = ("_", ".")
_AWKWARD = frozenset(":\n\r\\*?[]{}")

_NAMES = {
    "native": "Spark's Parquet reader",
    "delta": "Delta's reader",
    "python": "deltasql in Spark's Python workers",
}


def compares_otherwise(schema: StructType, path: tuple[str, ...]) -> bool:
    """Tell whether Spark has its own way with the texts of a column."""
    fields = list(_along(schema, path))
    texts = [str(field.metadata.get(TYPE_TEXT, "")) for field in fields]
    return any(_COLLATIONS in field.metadata for field in fields) or any(map(_CHAR.search, texts))


def _along(schema: StructType, path: tuple[str, ...]) -> Iterator[StructField]:
    struct = schema
    for name in path:
        field = find_field(struct, name)
        if field is None:
            return
        yield field
        if not isinstance(field.type, StructType):
            return
        struct = field.type


def has_odd_texts(predicate: Predicate, schema: StructType) -> bool:
    """Tell whether a filter names a column with whose texts Spark has its own way."""
    return any(compares_otherwise(schema, column.path) for column in columns_of(predicate))


def is_sound(predicate: Predicate, schema: StructType, partitions: Sequence[str]) -> bool:
    """Tell whether every row that Spark keeps is one that SQL would keep."""
    return not has_odd_texts(predicate, schema) and not _is_met_by_nan(predicate, partitions)


def _is_met_by_nan(predicate: Predicate, partitions: Sequence[str]) -> bool:
    match predicate:
        case Comparison(operator=operator, column=column):
            return operator in {">", ">="} and _may_be_nan(column, partitions)
        case ColumnComparison(left=left, right=right):
            return _may_be_nan(left, partitions) or _may_be_nan(right, partitions)
        case Not(part=part):
            return _is_met_by_nan(part, partitions)
        case And(parts=parts) | Or(parts=parts):
            return any(_is_met_by_nan(part, partitions) for part in parts)
    return False


def _may_be_nan(column: Column, partitions: Sequence[str]) -> bool:
    return column.type.name in FLOATS and column.path[0] in partitions


def understood(snapshot: Snapshot, where: str | None, zone: tzinfo) -> UnderstoodFilter:
    """Return what SQL understands of a filter that Spark applies."""
    if where is None:
        return UnderstoodFilter(None, is_whole=True)
    mode = mapping_mode(snapshot.metadata.configuration)
    return parse_understood(where, snapshot.schema, mode, zone)


def pushable_part(
    predicate: Predicate | None, schema: StructType, partitions: Sequence[str]
) -> Predicate | None:
    """Return the part of a filter of Spark's by which SQL may skip files."""
    if predicate is None or is_sound(predicate, schema, partitions):
        return predicate
    parts = predicate.parts if isinstance(predicate, And) else ()
    found = [pushable_part(part, schema, partitions) for part in parts]
    kept = tuple(part for part in found if part is not None)
    return And(kept) if kept else None


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
