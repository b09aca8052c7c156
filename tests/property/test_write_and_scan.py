"""Whatever rows are written, a scan gives them back, and a filter keeps exactly its own."""

import itertools
import json
from decimal import Decimal as Number

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.data.scanner import ScanSpec, output_schema, scan_files
from deltasql.data.writer import WriteSpec, write_files
from deltasql.protocol.predicate import may_match, parse_predicate, to_arrow
from deltasql.protocol.schema.arrow import from_arrow_schema
from deltasql.protocol.stats.parse import parse_stats
from deltasql.storage.memory import MemoryStore

pytestmark = pytest.mark.req("R40")

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_KINDS = {
    "i": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2)),
    "s": (pa.string(), _TEXT | _TEXT.map(lambda text: "a" * 31 + text)),
    "x": (pa.float64(), st.floats()),
    "d": (
        pa.decimal128(18, 3),
        st.integers(-(10**18) + 1, 10**18 - 1).map(lambda units: Number(units).scaleb(-3)),
    ),
    "day": (pa.date32(), st.integers(-700_000, 2_900_000)),
    "ts": (pa.timestamp("us", tz="UTC"), st.integers(-(6 * 10**16), 2 * 10**17)),
    "n": (
        pa.struct([("y", pa.int64()), ("l", pa.list_(pa.float64()))]),
        st.fixed_dictionaries(
            {
                "y": st.none() | st.integers(-3, 3),
                "l": st.none() | st.lists(st.floats(allow_nan=False), max_size=2),
            }
        ),
    ),
    "m": (
        pa.map_(pa.string(), pa.int64()),
        st.dictionaries(_TEXT, st.none() | st.integers(-3, 3), max_size=2).map(
            lambda found: list(found.items())
        ),
    ),
}
_NAMES = ["", "a", "a b", "x/y%=", "ü", "__HIVE_DEFAULT_PARTITION__"]
_PARTITION = st.none() | st.sampled_from(_NAMES)
FILTERS = ["i > 0", "NOT i <= 1", "s >= 'a'", "x < 0", "x != 1", "p = 'a'", "p IS NULL OR i = 1"]


@st.composite
def _tables(draw):
    rows = draw(st.integers(1, 8))
    columns = {
        name: pa.array(draw(st.lists(st.none() | one, min_size=rows, max_size=rows)), kind)
        for name, (kind, one) in _KINDS.items()
    }
    columns["p"] = pa.array(draw(st.lists(_PARTITION, min_size=rows, max_size=rows)), pa.string())
    return pa.table(columns)


def _files(adds):
    return pa.table(
        {
            "path": [add.path for add in adds],
            "size": [add.size for add in adds],
            "partition_values": [json.dumps(add.partition_values) for add in adds],
            "deletion_vector": pa.nulls(len(adds), pa.string()),
        }
    )


def _plain(table):
    """Rows as text: NaN equals itself there, and dates need not fit Python's years."""
    table = table.set_column(table.column_names.index("day"), "day", table["day"].cast(pa.int32()))
    table = table.set_column(table.column_names.index("ts"), "ts", table["ts"].cast(pa.int64()))
    return sorted(repr(sorted(row.items())) for row in table.to_pylist())


@settings(max_examples=60)
@given(_tables(), st.sampled_from(FILTERS), st.booleans(), st.integers(1, 4))
def test_rows_survive_the_way_through_files(table, text, partitioned, step):
    numbers = itertools.count()
    schema = from_arrow_schema(table.schema)
    partitions = ["p"] if partitioned else []
    store = MemoryStore()
    spec = WriteSpec(schema, lambda: str(next(numbers)), 0, partitions, target_file_size=200)
    adds = write_files(table.to_reader(step), spec, store)
    scan = ScanSpec(schema, partitions, threads=1, batch_rows=3)
    expected = table
    if partitioned:  # the empty text is null there
        texts = [text or None for text in table["p"].to_pylist()]
        expected = table.set_column(
            table.column_names.index("p"), "p", pa.array(texts, pa.string())
        )
    found = pa.Table.from_batches(scan_files(_files(adds), scan, store), _schema(table))
    assert _plain(found) == _plain(expected)
    where = parse_predicate(text, schema)
    pruned = [add for add in adds if may_match(where, parse_stats(add.stats), add.partition_values)]
    kept = pa.Table.from_batches(
        list(scan_files(_files(pruned), scan, store, predicate=where)) if pruned else [],
        _schema(table),
    )
    assert _plain(kept) == _plain(expected.filter(to_arrow(where)))


def _schema(table):
    return output_schema(ScanSpec(from_arrow_schema(table.schema)))
