"""Tables of other writers, imported and cut over: every reader sees in them what SQL says."""

import msgspec
import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import SchemaError
from deltasql.protocol.schema.types import STRING, StructField, StructType, print_schema
from foreign_tables import ForeignTable, a_field
from readers import READERS, read_deltasql

pytestmark = pytest.mark.req("R26", "R83")

BINARY = ForeignTable(fields=(a_field("id"), a_field("p", "binary")), partition_by=("p",))
TEXTS = ["plain", "é", "€\x01", None]


@pytest.fixture
def catalog(tmp_path):
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/catalog.db") as found:
        found.create_if_missing()
        yield found


def take_over(catalog, root, name="t") -> deltasql.Table:
    """Import a table and cut it over."""
    catalog.import_table(str(root), name=name, engine="local")
    catalog.cutover(name)
    return catalog.table(name)


def test_binary_partition_values_are_the_utf8_of_their_texts(catalog, tmp_path):
    files = [({"p": text}, pa.table({"id": [number]})) for number, text in enumerate(TEXTS)]
    root = BINARY.write(tmp_path / "t", files)
    table = take_over(catalog, root)
    values = {row["id"]: row["p"] for row in read_deltasql(table)}
    assert values == {n: None if text is None else text.encode() for n, text in enumerate(TEXTS)}


@pytest.mark.parametrize("reader", ["deltalake", "duckdb"])
def test_readers_see_the_bytes_that_were_written_as_partition_values(catalog, tmp_path, reader):
    root = BINARY.write(tmp_path / "t", [({"p": "plain"}, pa.table({"id": [0]}))])
    table = take_over(catalog, root)
    table.append(pa.table({"id": [1, 2], "p": pa.array([b"\xc3\xa9", None], pa.binary())}))
    assert [row["p"] for row in read_deltasql(table)] == [b"plain", b"\xc3\xa9", None]
    assert READERS[reader](str(root)) == read_deltasql(table)


def test_a_partition_value_that_is_not_utf8_is_refused_before_anything_is_written(
    catalog, tmp_path
):
    root = BINARY.write(tmp_path / "t", [({"p": "plain"}, pa.table({"id": [0]}))])
    table = take_over(catalog, root)
    before = sorted(path.name for path in root.rglob("*"))
    with pytest.raises(SchemaError, match=r"The partition column p holds .*not UTF-8"):
        table.append(pa.table({"id": [1], "p": pa.array([b"\xff\xfe"], pa.binary())}))
    assert (table.version, sorted(path.name for path in root.rglob("*"))) == (1, before)


NAMES = [
    "a b",
    "c,d",
    "e=f",
    "g;h",
    "(x)",
    "{y}",
    "tab\t",
    "new\nline",
    "",
    'a"b`c.d,e f',
]


@pytest.mark.parametrize("is_partition", [False, True])
@pytest.mark.parametrize("name", [*NAMES, "dot.ted"])
def test_columns_of_any_name_are_imported_and_written_on(catalog, tmp_path, name, is_partition):
    import deltalake

    root, rows = str(tmp_path / "t"), pa.table({"id": [1, 2], name: ["x", "y"]})
    try:
        deltalake.write_deltalake(root, rows, partition_by=[name] if is_partition else None)
    except deltalake.exceptions.DeltaError:
        assert is_partition
        assert name in {"tab\t", "new\nline"}  # no folder of such a name
        return
    table = take_over(catalog, root)
    table.append(rows)
    table.alter(properties={"mine": "too"})
    table.alter(add=[StructField("more", STRING)])
    table.append(pa.table({"id": [3], name: ["z"], "more": ["m"]}))
    quoted = name.replace("`", "``")
    if name:  # SQL has no name without a letter
        assert table.scan(where=f"`{quoted}` = 'x'").to_arrow().num_rows == 2
    table.compact()
    for reader in ("deltalake", "duckdb"):
        if name or reader != "duckdb":
            assert READERS[reader](root) == read_deltasql(table)
    assert catalog.mirror.verify("t") == []


@pytest.mark.parametrize("name", NAMES)
def test_new_columns_have_names_that_delta_takes(catalog, tmp_path, name):
    rows = pa.table({"id": [1], name: ["x"]})
    with pytest.raises(SchemaError, match="column name"):
        catalog.create_table("new", location=str(tmp_path / "new"), schema=rows.schema)
    table = catalog.create_table("t", location=str(tmp_path / "t"), schema=rows.schema.remove(1))
    metadata = table.snapshot().metadata
    wider = print_schema(StructType((*table.schema.fields, StructField(name, STRING))))
    for attempt in (
        lambda: table.alter(add=[StructField(name, STRING)]),
        lambda: table.append(rows, schema_mode="merge"),
        lambda: table.commit([msgspec.structs.replace(metadata, schema_string=wider)]),
    ):
        with pytest.raises(SchemaError, match="column name"):
            attempt()
    assert table.version == 0


def test_a_row_tracked_table_is_altered(catalog, tmp_path):
    features = ["appendOnly", "domainMetadata", "invariants", "rowTracking"]
    made = ForeignTable(
        versions=(1, 7),
        writer_features=features,
        configuration={
            "delta.enableRowTracking": "true",
            "delta.rowTracking.materializedRowIdColumnName": "_row-id",
            "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version",
        },
    )
    table = take_over(catalog, made.write(tmp_path / "t", []))
    table.alter(properties={"delta.enableChangeDataFeed": "true"}, description="tracked")
    table.alter(add=[StructField("more", STRING)])
    table.alter(unset=["delta.enableChangeDataFeed"])
    assert {*features, "changeDataFeed"} <= set(table.snapshot().protocol.writer_features)


def test_partitions_of_times_before_the_year_one_are_read(catalog, tmp_path):
    made = ForeignTable(
        versions=(3, 7),
        reader_features=["timestampNtz"],
        writer_features=["timestampNtz"],
        fields=(a_field("id"), a_field("n", "timestamp_ntz")),
        partition_by=("n",),
    )
    texts = ["-0043-03-15 12:00:00", "0000-12-31 23:59:59.5", "0001-01-01 00:00:00", None]
    files = [({"n": text}, pa.table({"id": [number]})) for number, text in enumerate(texts)]
    table = take_over(catalog, made.write(tmp_path / "t", files))
    found = table.scan().to_arrow().sort_by("id")
    assert found["n"].cast(pa.int64()).to_pylist()[1:] == [
        -62135596800_500_000,
        -62135596800_000_000,
        None,
    ]
    assert table.scan(where="n < '0001-01-01'").to_arrow()["id"].to_pylist() == [0, 1]
    table.compact()
    assert sorted(table.scan(where="n < '-0001-01-01'").to_arrow()["id"].to_pylist()) == [0]
