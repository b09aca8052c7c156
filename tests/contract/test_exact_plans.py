"""Where the index decides a filter as well as the statistics of the files, they are not read again.

The oracle is the exact test of every file: what the plan has more than it may have only files
whose bounds the index rounds, and the plan never has less.
"""

import json
import random

import pyarrow as pa
import pytest

import deltasql
from builders import NO_MIRROR, an_add
from deltasql.metastore.snapshot import file_list
from deltasql.protocol.predicate import may_match
from deltasql.protocol.stats.parse import parse_stats

SEED = 20261119
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("x", pa.float64()),
        ("d", pa.date32()),
        ("name", pa.string()),
        ("late", pa.int32()),
        ("day", pa.string()),
    ]
)
# a filter, and whether the statistics of the files are read after SQL has decided it
FILTERS = [
    ("id >= 300 and id <= 420", False),
    ("id > 300 and id < 420", False),
    ("id = 355", False),
    ("id between 300 and 420 and day = 'b'", False),
    ("day = 'b' and id > 9000", False),
    ("x <= 12.5", False),
    ("x = 12.5 and id < 500", False),
    ("d >= date '2026-02-01'", False),
    ("x > 12.5", True),  # NaN is above every number and in no bound
    ("id in (300, 420)", True),
    ("id != 300", True),
    ("id > 300 or day = 'b'", True),
    ("id > 300 and name = 'n00301'", True),
    ("late > 500", True),  # files from before the column was indexed
    ("id > late", True),
]


@pytest.fixture
def table(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        table = catalog.create_table(
            "t", location=str(tmp_path / "t"), schema=SCHEMA, partition_by=["day"]
        )
        rng = random.Random(SEED)
        table.commit([_file(rng, number) for number in range(60)])
        table.alter(properties={"deltasql.statsIndexColumns": "id,x,d,name,late"})
        table.commit([_file(rng, number) for number in range(60, 120)])
        yield table


def _file(rng, number):
    low = rng.randrange(0, 900)
    high = low + rng.randrange(0, 60)
    first, last = sorted(rng.uniform(0, 30) for _ in range(2))
    month = rng.randrange(1, 4)
    stats = {
        "numRecords": 10,
        "minValues": {
            "id": low, "x": first, "d": f"2026-0{month}-01", "name": f"n{low:05d}", "late": low
        },
        "maxValues": {
            "id": high, "x": last, "d": f"2026-0{month}-20", "name": f"n{high:05d}", "late": high
        },
        "nullCount": dict.fromkeys(("id", "x", "d", "name", "late"), 0),
    }  # fmt: skip
    text = None if number % 20 == 19 else json.dumps(stats)
    day = rng.choice("abc")
    return an_add(f"day={day}/f{number}.parquet", day=day, stats=text)


@pytest.mark.req("R40")
@pytest.mark.parametrize(("where", "reads_statistics"), FILTERS)
def test_a_plan_is_what_the_statistics_say(table, monkeypatch, where, reads_statistics):
    pruned = []
    exact = file_list._prune
    monkeypatch.setattr(file_list, "_prune", lambda *of: pruned.append(1) or exact(*of))
    snapshot = table.snapshot()
    predicate = snapshot.predicate(where)
    every = snapshot.files(["path", "stats", "partition_values"])
    wanted = {
        row["path"]
        for row in every.to_pylist()
        if may_match(predicate, parse_stats(row["stats"]), json.loads(row["partition_values"]))
    }
    found = snapshot.files(["path"], where=where)["path"].to_pylist()
    assert len(found) == len(set(found))
    assert set(found) == wanted, f"seed {SEED}"
    assert wanted
    assert len(wanted) < every.num_rows or reads_statistics
    assert bool(pruned) is reads_statistics
