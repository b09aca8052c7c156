"""Real tables, written by others: what we scan equals what they shipped as the result."""

import datetime as dt
import json
import math
import re
import tarfile
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpora import ARCHIVE, EXPECTED, MISSING, needs_corpora
from deltasql.data.scanner import ScanSpec, scan_files
from deltasql.protocol.predicate import parse_predicate
from deltasql.protocol.schema.types import parse_schema, print_schema
from deltasql.storage.local import LocalStore

pytestmark = [pytest.mark.req("R26"), needs_corpora]
# Its log holds a placeholder where the path of the deletion vector should be.
UNREADABLE = {"spark__table-with-dv-special-char"}
IMPORTED = sorted(
    name
    for name, case in EXPECTED.items()
    if case["verdict"] == "import" and case.get("rows") is not None and name not in UNREADABLE
)


def _actions_of(path):
    if path.suffix == ".json":
        yield from (json.loads(line) for line in path.read_text().splitlines() if line.strip())
    else:
        yield from pq.read_table(path).to_pylist()


def _checkpoint(log):
    """The newest complete checkpoint: its version and all of its files."""
    found = {}
    for path in log.iterdir():
        match = re.fullmatch(
            r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)",
            path.name,
        )
        if match and path.stat().st_size:
            kind = match[3] or path.name
            found.setdefault((int(match[1]), kind), []).append(path)
    whole = [
        (version, paths)
        for (version, kind), paths in found.items()
        if not kind.isdigit() or len(paths) == int(kind)
    ]
    return max(whole, key=lambda one: one[0], default=(-1, []))


def _replay(root):
    """A naive replay: (schema text, partition columns, configuration, live adds)."""
    log = root / "_delta_log"
    version, paths = _checkpoint(log)
    commits = sorted(path for path in log.iterdir() if re.fullmatch(r"\d{20}\.json", path.name))
    live, metadata = {}, None
    todo = list(paths) + [path for path in commits if int(path.name[:20]) > version]
    while todo:
        path = todo.pop(0)
        batch = list(_actions_of(path))
        sidecars = [one["sidecar"] for one in batch if one.get("sidecar")]
        todo[:0] = [log / "_sidecars" / one["path"] for one in sidecars]
        metadata = next((one["metaData"] for one in batch if one.get("metaData")), metadata)
        for kind in ("remove", "add"):
            for one in (action[kind] for action in batch if action.get(kind)):
                vector = one.get("deletionVector")
                key = (re.sub("^file:/+", "/", one["path"]), _dv_id(vector))
                live.pop(key, None)
                if kind == "add":
                    live[key] = one
    return metadata, list(live.values())


def _dv_id(vector):
    if not vector or vector.get("storageType") is None:
        return None
    offset = vector.get("offset")
    return f"{vector['storageType']}{vector['pathOrInlineDv']}" + (
        "" if offset is None else f"@{offset}"
    )


def _files(adds):
    def vector(one):
        found = one.get("deletionVector")
        if _dv_id(found) is None:
            return None
        keep = ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality")
        return json.dumps({key: found[key] for key in keep if found.get(key) is not None})

    return pa.table(
        {
            "path": pa.array([one["path"] for one in adds], pa.string()),
            "size": pa.array([one["size"] for one in adds], pa.int64()),
            "partition_values": pa.array(
                [json.dumps(dict(one["partitionValues"])) for one in adds], pa.string()
            ),
            "deletion_vector": pa.array([vector(one) for one in adds], pa.string()),
        }
    )


def _spec(metadata):
    return ScanSpec(
        parse_schema(metadata["schemaString"]),
        metadata["partitionColumns"],
        dict(metadata["configuration"] or {}),
        threads=2,
    )


def _scan(root, **options):
    metadata, adds = _replay(root)
    store = LocalStore(str(root))
    return list(scan_files(_files(adds), _spec(metadata), store, **options))


WIDENED = sorted(name for name in EXPECTED if name.endswith("type-widening"))


@pytest.mark.parametrize("name", [*IMPORTED, *WIDENED])
def test_a_scan_gives_as_many_rows_as_expected(tables, name):
    batches = _scan(tables / name / "delta")
    assert sum(batch.num_rows for batch in batches) == EXPECTED[name]["rows"]


def _plain(value):
    """One spelling for values that differ only in how the two readers hold them."""
    if isinstance(value, dict):
        return tuple(sorted((key, _plain(one)) for key, one in value.items()))
    if isinstance(value, list | tuple):
        return tuple(_plain(one) for one in value)
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value


def _rows(table):
    names = sorted(table.column_names)
    return Counter(tuple(_plain(row[name]) for name in names) for row in table.to_pylist())


def _with_results():
    if MISSING:
        return []
    with tarfile.open(ARCHIVE) as archive:
        found = {
            name.split("/")[0]
            for name in archive.getnames()
            if "/expected/" in name and name.endswith(".parquet")
        }
    return [name for name in IMPORTED if name in found]


@pytest.mark.parametrize("name", _with_results())
def test_a_scan_gives_the_rows_that_the_source_ships(tables, name):
    folder = tables / name / "expected"
    latest = folder / "latest" / "table_content"
    files = sorted((latest if latest.exists() else folder).rglob("*.parquet"))
    assert files
    wanted = Counter()
    for file in files:
        wanted += _rows(pq.ParquetFile(file, coerce_int96_timestamp_unit="us").read())
    found = Counter()
    for batch in _scan(tables / name / "delta"):
        found += _rows(pa.Table.from_batches([batch]))
    assert found == wanted


@pytest.mark.parametrize("name", IMPORTED)
def test_a_schema_of_others_is_printed_as_it_was(tables, name):
    metadata, _ = _replay(tables / name / "delta")
    text = metadata["schemaString"]
    printed = print_schema(parse_schema(text))
    assert json.loads(printed) == json.loads(text)
    compact = json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
    if text == compact and '"fields":[{"name"' in text and text.startswith('{"type"'):
        assert printed == text


# Tables without rows, or whose first columns hold no value of these types.
NOTHING_TO_COMPARE = {
    "deltars__concurrent_workers",
    "deltars__delta-live-table",
    "deltars__table_with_null_stats_in_notnull_struct",
    "kdi__example",
    "kdi__web_requests",
    "kernelrs__cdf-table-delete-conditional-all-rows",
    "kernelrs__cdf-table-delete-unconditional",
    "kernelrs__crc-full",
    "kernelrs__partition_cm--none",
    "kernelrs__table-with-cdf",
    "kernelrsgold__canonicalized-paths-normal-a",
    "kernelrsgold__log-replay-special-characters-a",
    "spark__dbr_8_0_non_generated_columns",
    "trino__databricks122--identity_columns",
    "trino__deltalake--deletion_vector_random_prefix",
    "trino__deltalake--write_stats_as_json_column_mapping_name",
}


@pytest.mark.parametrize("name", IMPORTED)
def test_a_filter_keeps_the_same_rows_as_filtering_afterwards(tables, name):
    """Row-group and partition pruning change nothing in the result."""
    root = tables / name / "delta"
    metadata, _ = _replay(root)
    spec = _spec(metadata)
    everything = _scan(root)
    tried = 0
    for field in spec.schema.fields[:4]:
        if field.type.name not in {"integer", "long", "short", "byte", "string", "date"}:
            continue
        values = [one for batch in everything for one in batch.column(field.name).to_pylist()]
        pivot = next((one for one in values if one is not None), None)
        if pivot is None:
            continue
        literal = (
            str(pivot) if isinstance(pivot, int) else "'" + str(pivot).replace("'", "''") + "'"
        )
        for operator, holds in (
            ("<=", lambda one, pivot=pivot: one <= pivot),
            ("=", lambda one, pivot=pivot: one == pivot),
            (">", lambda one, pivot=pivot: one > pivot),
        ):
            where = parse_predicate(f"`{field.name}` {operator} {literal}", spec.schema, spec.mode)
            kept = _scan(root, columns=[field.name], predicate=where)
            found = [one for batch in kept for one in batch.column(0).to_pylist()]
            assert found == [one for one in values if one is not None and holds(one)]
            tried += 1
    assert bool(tried) == (name not in NOTHING_TO_COMPARE)
