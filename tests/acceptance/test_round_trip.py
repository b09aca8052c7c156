"""Tables of other writers, taken over: SQL appends, the mirror writes, and all others read it.

A reader is left out, by name, where it cannot read the table as its own writer left it: that it
fails on the original too, and why, is part of the proof.
"""

import datetime as dt
import decimal
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltasql
from corpora import EXPECTED, needs_corpora
from delta_spark import read_delta_spark
from deltasql.errors import (
    DeltaSqlError,
    ImportDifferenceError,
    SchemaError,
    UnsupportedFeatureError,
)
from deltasql.protocol.log_names import LAST_CHECKPOINT, LOG_FOLDER
from deltasql.protocol.schema.arrow import to_arrow_schema
from readers import READERS, Rows, read_deltasql

pytestmark = [pytest.mark.req("R82", "R83"), needs_corpora]
# What cannot be imported is judged in tests/golden/test_corpora_import.py.
NOT_IMPORTED = {
    "deltarserr__table_b",
    "duckdb__null_constraints_lists",
    "kernelrs__table-with-geo",
}
# What we may not write to: cut-over or the first append says why.
NOT_WRITTEN: dict[str, tuple[type[DeltaSqlError], str]] = {
    "dat__generated_columns": (UnsupportedFeatureError, "creation is generated"),
    "dat__iceberg_compat_v1": (UnsupportedFeatureError, "icebergCompatV1"),
    "deltars__spark-variant-stable-feature-checkpoint": (UnsupportedFeatureError, "variantType"),
    "deltars__table_with_liquid_clustering": (UnsupportedFeatureError, "liquid"),
    "golden__canonicalized-paths-normal-a": (SchemaError, "no column besides"),
    "golden__collations-preview-table": (UnsupportedFeatureError, "collations-preview"),
    "golden__collations-table": (UnsupportedFeatureError, "collations"),
    "golden__type-widening": (UnsupportedFeatureError, "typeWidening-preview"),
    "kernel__spark-variant-stable-feature-checkpoint": (UnsupportedFeatureError, "variantType"),
    "kernelrs__partitioned_with_materialize_feature": (
        UnsupportedFeatureError,
        "materializePartitionColumns",
    ),
    "spark__dbr_8_0_non_generated_columns": (UnsupportedFeatureError, "c2 is generated"),
    "spark__variant-stats-state-reconstruction": (UnsupportedFeatureError, "variantType"),
    "trino__databricks122--identity_columns": (UnsupportedFeatureError, "identity column"),
    "trino__deltalake--clone_merge--clone_merge_cloned": (
        ImportDifferenceError,
        "differs from its log",
    ),
    "trino__deltalake--type_widening": (UnsupportedFeatureError, "typeWidening-preview"),
    "trino__deltalake--type_widening_unsupported": (
        UnsupportedFeatureError,
        "typeWidening-preview",
    ),
    "trino__deltalake--uniform_hudi": (UnsupportedFeatureError, "inCommitTimestamp-preview"),
}
TAKEN = sorted(
    name
    for name, case in EXPECTED.items()
    if case["verdict"] != "refuse" and name not in NOT_IMPORTED | set(NOT_WRITTEN)
)
HANDFUL = [
    name
    for name in (
        "dat__basic_append",
        "deltars__simple_table_with_checkpoint",
        "kernel__data-reader-partition-values-column-mapping-name",
        "kernelrs__v2-checkpoints-parquet-with-sidecars",
        "trino__databricks122--deletion_vectors",
    )
    if name in TAKEN
]
# The data files were not shipped with the log, or lie elsewhere.
_GONE = dict.fromkeys(READERS, "(?i)no such file|not found|object at location|could not open")
_VECTORS = {"deltalake": "deletionVectors"}
_V2 = {"deltalake": "v2Checkpoint", "polars": "v2Checkpoint"}
_MAPPED = {"polars": "column mapping"}
_MAPPED_FEATURE = {"deltalake": "columnMapping", "polars": "columnMapping"}
LEFT_OUT: dict[str, dict[str, str]] = {
    "dat__check_constraints": _VECTORS,
    "deltago__simple": _GONE,
    "deltars__checkpoint_with_partitions": _GONE,
    "deltars__delta-live-table": _MAPPED,
    "deltars__table-with-dv-small": _VECTORS,
    "deltarserr__table_a": _GONE,
    "golden__checkpoint": _GONE,
    "golden__parquet-decimal-dictionaries-v1": _GONE,
    "kernel__data-reader-partition-values-column-mapping-name": _MAPPED,
    "kernel__data-reader-primitives-column-mapping-name": _MAPPED,
    "kernel__kernel-pagination-v2-checkpoint-json": _V2,
    "kernel__kernel-pagination-v2-checkpoint-parquet": _V2,
    "kernelrs__cdf-column-mapping-id-mode": _MAPPED,
    "kernelrs__crc-full": _VECTORS,
    "kernelrs__v1-single-part-struct-stats-only": _VECTORS,
    "kernelrs__v2-checkpoints-json-with-last-checkpoint": _V2,
    "kernelrs__v2-checkpoints-json-without-sidecars": _V2,
    "kernelrs__v2-checkpoints-parquet-with-sidecars": _V2,
    "kernelrs__v2-classic-checkpoint-json": _V2,
    "kernelrsgold__canonicalized-paths-normal-a": _GONE,
    "kernelrsgold__data-reader-timestamp_ntz-id-mode": _MAPPED_FEATURE,
    "kernelrsgold__data-skipping-basic-stats-all-types-columnmapping-id": _MAPPED,
    "kernelrsgold__data-skipping-basic-stats-all-types-columnmapping-name": _MAPPED,
    "kernelrsgold__dv-with-columnmapping": _MAPPED_FEATURE,
    "kernelrsgold__v2-checkpoint-parquet": _V2,
    "spark__table-with-dv-gigantic": _GONE | _VECTORS,
    "spark__table-with-dv-small": _MAPPED_FEATURE,
    "spark__table-with-dv-special-char": _GONE | _VECTORS,
    "trino__databricks122--deletion_vectors": _VECTORS,
    "trino__deltalake--clone_merge--clone_merge_deletion_vector_source": _VECTORS,
    "trino__deltalake--deletion_vector_pages": _VECTORS,
    "trino__deltalake--deletion_vector_random_prefix": _VECTORS,
    "trino__deltalake--write_stats_as_json_column_mapping_name": _MAPPED,
    "trino__statistics--parquet_struct_statistics_nan": _GONE,
    "trino__statistics--parquet_struct_statistics_null_count": _GONE,
    "trino__trino410--no_stats_various_types": {"polars": "data type mismatch"},
}
# Its log holds a placeholder where the path of the deletion vector should be: nobody reads it.
OWN_LIMITS = {"spark__table-with-dv-special-char"}
MAPPING = "delta.columnMapping.mode"
# Partitions by time, which today's writers spell with a zone: Polars wants one spelling in a table.
POLARS_WANTS_ONE_SPELLING = {
    "kernelrsgold__kernel-timestamp-pst",
    "kernelrsgold__kernel-timestamp-timestamp_micros",
    "trino__deltalake--partitions",
}


@dataclass(frozen=True)
class Taken:
    """A table after its round trip: where it is, its rows before by reader, the new row."""

    name: str
    root: Path
    before: dict[str, Rows]
    table: deltasql.Table
    row: dict[str, Any]


@pytest.fixture
def catalog(tmp_path):
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/catalog.db") as found:
        found.create_if_missing()
        yield found


def take_over(
    catalog: deltasql.Catalog, name: str, root: Path, readers: dict[str, Callable]
) -> Taken:
    """Read a table by all readers, import it, cut over, append a row through SQL, mirror it."""
    before = {key: read(str(root)) for key, read in readers.items()}
    old = log_bytes(root)
    catalog.import_table(str(root), "t", engine="local")
    catalog.cutover("t")
    table = catalog.table("t")
    schema = to_arrow_schema(table.schema)
    row = {field.name: value_of(field.type) for field in schema}
    version = table.append(pa.Table.from_pylist([row], schema=schema))
    table.wait_mirrored(version, timeout=60)
    new = log_bytes(root)
    assert {key: new[key] for key in old} == old
    assert len(new) >= len(old) + 2
    return Taken(name, root, before, table, row)


def log_bytes(root: Path) -> dict[Path, bytes]:
    """Every file of the log but the hint, which tells of the newest checkpoint."""
    files = (path for path in (root / LOG_FOLDER).rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if path != root / LAST_CHECKPOINT}


def value_of(kind: pa.DataType) -> Any:
    """A value that no other row of the corpora has where its type leaves a choice."""
    is_a = pa.types
    tests: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]], ...] = (
        (is_a.is_boolean, lambda _: True),
        (is_a.is_integer, lambda _: 77),
        (is_a.is_floating, lambda _: 7.5),
        (is_a.is_decimal, lambda _: decimal.Decimal(1)),
        (is_a.is_date, lambda _: dt.date(2026, 1, 2)),
        (is_a.is_timestamp, lambda k: dt.datetime(2026, 1, 2, 3, tzinfo=k.tz and dt.UTC)),
        (is_a.is_string, lambda _: "new"),
        (is_a.is_binary, lambda _: b"new"),
        (is_a.is_struct, lambda k: {field.name: value_of(field.type) for field in k}),
        (is_a.is_map, lambda k: [(value_of(k.key_type), value_of(k.item_type))]),
        (is_a.is_list, lambda k: [value_of(k.value_type)]),
        (is_a.is_null, lambda _: None),
    )
    return next(make(kind) for test, make in tests if test(kind))


def require_old_and_new(taken: Taken, reader: str, before: Rows, after: Rows) -> None:
    """All old rows as they were, and one more, which is ours."""
    old, new = (Counter(map(repr, rows)) for rows in (before, after))
    assert not old - new, reader
    (fresh,) = (new - old).elements()
    (found,) = [row for row in after if repr(row) == fresh][:1]
    # deltalake sees nothing but nulls in columns of mapped names, in old rows as in new ones
    if reader != "deltalake" or MAPPING not in EXPECTED[taken.name]["metadata"]["configuration"]:
        for column, value in plain(taken.row).items():
            assert found[column] == value, reader


def require_readable(taken: Taken) -> None:
    for reader, before in taken.before.items():
        require_old_and_new(taken, reader, before, READERS[reader](str(taken.root)))
    if EXPECTED[taken.name]["rows"] is not None and taken.name not in OWN_LIMITS:
        assert len(read_deltasql(taken.table)) == EXPECTED[taken.name]["rows"] + 1


def require_left_out(root: Path, reader: str, reason: str) -> None:
    with pytest.raises(BaseException, match=reason):
        READERS[reader](str(root))


def round_trip(catalog: deltasql.Catalog, tables: Path, tmp_path: Path, name: str) -> Taken:
    root = tmp_path / "table"
    shutil.copytree(tables / name / "delta", root)
    limits = LEFT_OUT.get(name, {})
    for reader, reason in limits.items():
        require_left_out(root, reader, reason)
    readers = {key: read for key, read in READERS.items() if key not in limits}
    taken = take_over(catalog, name, root, readers)
    if name in POLARS_WANTS_ONE_SPELLING:
        require_left_out(root, "polars", "could not parse")
        del taken.before["polars"]
    require_readable(taken)
    return taken


def test_every_table_is_judged_here():
    known = set(EXPECTED)
    assert NOT_IMPORTED | set(NOT_WRITTEN) | set(LEFT_OUT) | POLARS_WANTS_ONE_SPELLING <= known
    assert not set(LEFT_OUT) & set(NOT_WRITTEN)
    assert len(TAKEN) > 100


@pytest.mark.parametrize("name", HANDFUL)
def test_a_table_taken_over_is_read_by_all(catalog, tables, tmp_path, name):
    round_trip(catalog, tables, tmp_path, name)


@pytest.mark.verify
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", TAKEN)
def test_every_table_taken_over_is_read_by_all(catalog, tables, tmp_path, name):
    taken = round_trip(catalog, tables, tmp_path, name)
    if EXPECTED[name]["rows"] is None or name in OWN_LIMITS:
        return
    rows = read_delta_spark(str(taken.root))
    assert len(rows) == EXPECTED[name]["rows"] + 1
    assert [row for row in rows if all(row[c] == v for c, v in plain(taken.row).items())]


@pytest.mark.parametrize("name", sorted(NOT_WRITTEN))
def test_a_table_that_we_may_not_write_is_left_as_it_is(catalog, tables, tmp_path, name):
    kind, reason = NOT_WRITTEN[name]
    root = tmp_path / "table"
    shutil.copytree(tables / name / "delta", root)
    old = log_bytes(root)
    with pytest.raises(kind, match=re.escape(reason)):
        take_over(catalog, name, root, {})
    new = log_bytes(root)
    assert {key: new[key] for key in old} == old


def plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if isinstance(value, int | str)}
