"""Checkpoints read fast and slowly give the same rows; damaged ones give them too, or an error."""

import io
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from action_strategies import ADDS, REMOVES
from commits import metadata
from deltasql.errors import MalformedActionError
from deltasql.log.checkpoint_reader import read_head
from deltasql.protocol.actions import Action, Add, DomainMetadata, Protocol, Txn
from deltasql.protocol.checkpoint.layout import CheckpointShape
from naive_checkpoints import (
    CLASSIC,
    KEY,
    VERSION,
    actions_of,
    add_rows,
    fast_rows,
    parquet,
    remove_rows,
    stored,
)

TEXT, LONG, BOOL = pa.string(), pa.int64(), pa.bool_()
MAP = pa.map_(TEXT, TEXT)
VECTOR = [
    ("storageType", TEXT),
    ("pathOrInlineDv", TEXT),
    ("offset", LONG),
    ("sizeInBytes", LONG),
    ("cardinality", LONG),
    ("maxRowIndex", LONG),
]
SHARED = [
    ("path", TEXT),
    ("partitionValues", MAP),
    ("size", LONG),
    ("dataChange", BOOL),
    ("tags", MAP),
    ("deletionVector", pa.struct(VECTOR)),
    ("baseRowId", LONG),
    ("defaultRowCommitVersion", LONG),
    ("stats", TEXT),
]
ADD = [
    *SHARED,
    ("modificationTime", LONG),
    ("clusteringProvider", TEXT),
    ("fromTheFuture", pa.struct([("n", LONG), ("s", TEXT)])),
]
REMOVE = [*SHARED, ("deletionTimestamp", LONG), ("extendedFileMetadata", BOOL)]
SCHEMA = pa.schema([("add", pa.struct(ADD)), ("remove", pa.struct(REMOVE))])
FUTURE = st.none() | st.fixed_dictionaries(
    {"n": st.integers(0, 9), "s": st.text('ab"é', max_size=3)}
)
STATS = st.sampled_from(
    [
        '{"numRecords":5}',
        '{"numRecords":5,"minValues":{"a":1.5,"b":"x\\""},"nullCount":{"a":0}}',
        '{"numRecords":-1}',
        '{"numRecords":1.0}',
        '{"numRecords":"7"}',
        '{"numRecords":true}',
        '{"numRecords":3',
        '{"minValues":{}}',
        "[1]",
        "5",
        "null",
        "",
        "no json",
    ]
)


def row(action: Action, future: dict | None, stats: str | None) -> dict:
    kind = action.kind
    names = [name for name, _ in (ADD if isinstance(action, Add) else REMOVE)]
    body = {name: getattr(action, snake(name), None) for name in names}
    vector = action.deletion_vector
    if vector is not None:
        body["deletionVector"] = {name: getattr(vector, snake(name), None) for name, _ in VECTOR}
    if isinstance(action, Add):
        body |= {"fromTheFuture": future, "stats": stats}
    maps = ("partitionValues", "tags")
    body |= {name: list(body[name].items()) for name in maps if body[name] is not None}
    return {kind: body}


def snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


ROWS = st.lists(
    st.builds(row, ADDS | REMOVES, FUTURE, st.none() | STATS) | st.just({}), max_size=12
)
SPELLINGS = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(["snappy", "zstd", "gzip", "none"]),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "use_dictionary": st.booleans(),
        "store_schema": st.booleans(),
        "row_group_size": st.integers(1, 12),
    }
)


@pytest.mark.req("R76")
@settings(max_examples=60)
@given(rows=ROWS, spelling=SPELLINGS, most_rows=st.integers(1, 20))
def test_the_fast_way_gives_the_rows_of_the_slow_one(rows, spelling, most_rows):
    data = parquet(pa.Table.from_pylist(rows, schema=SCHEMA), **spelling)
    actions = actions_of(data)
    adds, removes = fast_rows(stored(data), most_rows=most_rows)
    assert adds == add_rows(actions)
    assert removes == remove_rows(actions)


def small_checkpoint(**options) -> bytes:
    about = metadata(configuration={"delta.checkpoint.writeStatsAsStruct": "true"})
    features = ["deletionVectors"]
    protocol = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=features,
        writer_features=features,
    )
    shape = CheckpointShape(about, protocol)
    head = shape.head(
        protocol,
        about,
        [Txn(app_id="a", version=3)],
        [DomainMetadata(domain="d", configuration="{}", removed=False)],
    )
    table = pa.concat_tables([head, shape.adds(files(30)), shape.removes(files(10))])
    plain = {"store_schema": False, "write_statistics": False, "row_group_size": 25}
    return parquet(table, **plain, **options)


def files(count: int) -> pa.RecordBatch:
    numbers = range(count)
    vector = '{"storageType":"u","pathOrInlineDv":"x%d","sizeInBytes":1,"cardinality":2,"offset":3}'
    stats = '{"numRecords":%d,"minValues":{"id":%d},"maxValues":{"id":99},"nullCount":{"id":0}}'
    return pa.record_batch(
        {
            "path": [f"day=a/{n}.parquet" for n in numbers],
            "partition_values": [f'{{"day":"{n % 3}"}}' for n in numbers],
            "size": [n * 7 for n in numbers],
            "modification_time": list(numbers),
            "tags": ['{"a":"b"}' if n % 2 else None for n in numbers],
            "deletion_vector": [vector % n if n % 3 == 0 else None for n in numbers],
            "base_row_id": list(numbers),
            "default_row_commit_version": list(numbers),
            "clustering_provider": ["c"] * count,
            "stats": [stats % (n, n) for n in numbers],
            "deletion_timestamp": list(numbers),
            "extended_file_metadata": [True] * count,
        }
    )


KINDS = [
    {"compression": codec, "data_page_version": version}
    for codec, version in (("snappy", "1.0"), ("zstd", "2.0"), ("none", "1.0"))
]


def damaged(chance: random.Random, data: bytes) -> bytes:
    """Flip a bit, more often in the footer, or cut the file."""
    if chance.random() < 0.1:
        return data[: chance.randrange(len(data))]
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    at = chance.randrange(footer if chance.random() < 0.4 else 0, len(data))
    return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]


def everything(data: bytes) -> tuple:
    store = stored(data)
    return (*fast_rows(store), sorted(map(repr, read_head(store, CLASSIC))))


def check_place(error: MalformedActionError, name: str) -> None:
    assert error.context["version"] == VERSION, name
    assert error.context["key"] == KEY, name
    assert KEY in error.message, name


def check_damaged(kind: dict, numbers: range) -> int:
    """Every damaged copy gives the right rows, or an error that names it; return how many do."""
    data = small_checkpoint(**kind)
    right = everything(data)
    refused = 0
    for number in numbers:
        name = f"{kind}:{number}"
        try:
            found = everything(damaged(random.Random(name), data))
        except MalformedActionError as error:
            check_place(error, name)
            refused += 1
        else:
            assert found == right, name
    return refused


@pytest.mark.req("R73")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind["compression"])
def test_a_damaged_checkpoint_is_refused_or_read_right(kind):
    assert check_damaged(kind, range(100)) > 30


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind["compression"])
def test_many_damaged_checkpoints_are_refused_or_read_right(kind):
    assert check_damaged(kind, range(100, 3_500)) > 1_000


def test_the_checkpoint_that_is_damaged_is_a_right_one():
    data = small_checkpoint()
    adds, removes, _ = everything(data)
    actions = actions_of(data)
    assert adds == add_rows(actions)
    assert removes == remove_rows(actions)
    assert pq.read_metadata(io.BytesIO(data)).num_row_groups == 2
