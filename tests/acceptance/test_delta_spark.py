"""Stock Delta Spark sees in the mirrored log what SQL says: all versions, all times, all rows.

All tests that use a Spark of their process share it (tests/plugins/shared_spark.py).
"""

import datetime as dt
import os
import shutil
from pathlib import Path

import pytest

import delta_spark
import deltasql
from builders import a_table, ids, rows
from checkpoint_shapes import SHAPES, actions_of, columns_of
from contests import commit_unseen
from delta_spark import read_delta_spark
from deltasql.protocol.log_names import LAST_CHECKPOINT, checkpoint_path, commit_key
from deltasql.protocol.schema.types import Primitive, StructField
from deltasql.testing.invariants import check_invariants
from readers import read_deltasql
from typed_table import TYPES, typed_rows

pytestmark = [
    pytest.mark.req("R26"),
    pytest.mark.usefixtures("spark"),
    # said when an error of Spark is turned into one of Python; no pandas is used here
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]
MINUTE, DAY = 60_000, 24 * 3600 * 1000
START = 1_767_225_600_000  # 2026-01-01
# Spark refuses to look back further than removed files are kept; the log itself is kept for a day
KEPT = {
    "delta.deletedFileRetentionDuration": "interval 520 weeks",
    "delta.logRetentionDuration": "interval 1 day",
    "delta.checkpointInterval": "1000",
}
# whatever the database, the log is the same: one of them in `make test` is enough
ON_POSTGRES_LATER = pytest.mark.parametrize(
    "catalog_uri",
    ["sqlite", pytest.param("postgres", marks=pytest.mark.verify)],
    indirect=True,
)
PARTITIONS = ["plain", "a b/c%d#e=é", "x/y%", 'it\'s "so" `said`', None]


@pytest.fixture
def clock():
    return {"now": START}


@pytest.fixture
def catalog(catalog_uri, clock):
    with deltasql.connect(catalog_uri, clock=lambda: clock["now"]) as opened:
        opened.create_if_missing()
        yield opened


def typed_table(catalog, tmp_path, name="typed", **properties) -> deltasql.Table:
    return catalog.create_table(
        name,
        location=str(tmp_path / name),
        schema=TYPES,
        partition_by=["p"],
        properties={**KEPT, **properties},
    )


def place(table) -> str:
    return table.location.removeprefix("file://")


def moment(ms: int) -> str:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def equals(text: str | None) -> str:
    return "p is null" if text is None else "p = '{}'".format(text.replace("'", "''"))


def live_through(table, catalog, clock) -> None:
    """Fourteen versions of all kinds, a minute apart, with checkpoints at 5 and 10."""
    more = StructField("more", Primitive("string"), nullable=True, metadata={})
    steps = [
        *(lambda n=n, p=p: table.append(typed_rows(n * 5, p)) for n, p in enumerate(PARTITIONS)),
        lambda: table.delete("p = 'plain'"),
        lambda: table.overwrite(typed_rows(40, "x/y%"), where="p = 'x/y%'"),
        lambda: table.append(typed_rows(50, "plain"), txn=("loader", 1)),
        lambda: table.delete("p is null"),
        lambda: table.append(typed_rows(60, None)),
        lambda: table.append(typed_rows(70, "plain")),
        table.compact,
        lambda: table.alter(add=[more]),
        lambda: table.append(typed_rows(80, PARTITIONS[1]).append_column("more", [["new"] * 5])),
    ]
    for version, step in enumerate(steps, start=1):
        clock["now"] = START + version * MINUTE + (3 * DAY if version > 10 else 0)
        assert step() == version
        if version % 5 == 0:
            catalog.mirror.checkpoint("typed", version)


@pytest.mark.parametrize(
    "catalog_uri", ["sqlite", pytest.param("postgres", marks=pytest.mark.soak)], indirect=True
)
def test_every_version_is_what_sql_says_with_the_whole_log_and_without(catalog, tmp_path, clock):
    table = typed_table(catalog, tmp_path)
    live_through(table, catalog, clock)
    check_invariants(catalog, "typed")
    for version in range(table.version + 1):
        found = read_delta_spark(place(table), version=version)
        assert found == read_deltasql(table, version=version), version
    assert len(catalog.mirror.cleanup("typed")) == 11  # the commits 0 to 9, the checkpoint at 5
    delta_spark.forget()
    for version in (None, 10, 11, 14):
        found = read_delta_spark(place(table), version=version)
        assert found == read_deltasql(table, version=version), version
    for partition in PARTITIONS:
        found = read_delta_spark(place(table), where=equals(partition))
        assert found == read_deltasql(table, where=equals(partition)), partition
    with pytest.raises(Exception) as refused:
        read_delta_spark(place(table), version=9)
    assert "DELTA_VERSION_NOT_FOUND" in delta_spark.complaint(refused.value)


@pytest.mark.req("R85")
def test_times_are_those_of_sql_whatever_the_files_say(catalog, tmp_path, clock):
    table = a_table(catalog, tmp_path, properties=KEPT)
    for number in range(1, 5):
        clock["now"] = START + number * MINUTE + number  # milliseconds count
        table.append(rows(number), user_metadata=f"é {number}")
    for version in range(5):  # the newest looks oldest
        wrong = 1_000_000_000 - version * 3600
        os.utime(Path(place(table)) / commit_key(version), (wrong, wrong))
    told = [
        (
            entry["version"],
            round(entry["timestamp"].timestamp() * 1000),
            entry["operation"],
            entry["userMetadata"],
            entry["readVersion"],
            entry["isBlindAppend"],
        )
        for entry in delta_spark.history(place(table))
    ]
    entries = table.history()
    assert told == [
        (e.version, e.committed_at, e.operation, e.user_metadata, e.read_version, e.is_blind_append)
        for e in entries
    ]
    for entry in entries:
        expected = read_deltasql(table, version=entry.version)
        found = read_delta_spark(place(table), timestamp=moment(entry.committed_at))
        assert found == expected == read_deltasql(table, timestamp=entry.committed_at)
    between = START + 2 * MINUTE + 30_000
    assert len(read_delta_spark(place(table), timestamp=moment(between))) == 2
    with pytest.raises(Exception) as refused:
        read_delta_spark(place(table), timestamp=moment(START - 1))
    assert "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT" in delta_spark.complaint(refused.value)


@ON_POSTGRES_LATER
@pytest.mark.req("R5")
def test_files_are_skipped_by_the_typed_statistics_of_a_checkpoint(catalog, tmp_path):
    wanted = {
        "delta.checkpoint.writeStatsAsStruct": "true",
        "delta.checkpoint.writeStatsAsJson": "false",
    }
    table = typed_table(catalog, tmp_path, **wanted)
    for number, partition in enumerate(PARTITIONS):
        table.append(typed_rows(number * 5, partition))
    catalog.mirror.checkpoint("typed")
    for version in range(table.version):  # the checkpoint alone knows the files
        (Path(place(table)) / commit_key(version)).unlink()
    filters = {
        "i = 7": 1,
        "x >= 4": 3,
        "name = 'é-日本-7'": 1,
        "day < date '2026-01-04'": 1,
        "at > timestamp '2026-01-31 12:00:19.123400Z'": 2,
        "price = 1.25": 1,
        "p = 'x/y%' or p is null": 2,
        "flag is null": 5,
        "i > 24": 0,
    }
    for where, files in filters.items():
        assert delta_spark.count_files(place(table), where) == files, where
        found = read_delta_spark(place(table), where=where)
        assert found == read_deltasql(table, where=where), where


@pytest.mark.req("R5")
@pytest.mark.req("R25")
@pytest.mark.parametrize(("shape", "parsed"), [("types", "false"), *((s, "true") for s in SHAPES)])
def test_a_checkpoint_is_what_delta_spark_would_write(tmp_path, shape, parsed):
    given = SHAPES[shape]
    properties = {**KEPT, **given.properties, "delta.checkpoint.writeStatsAsStruct": parsed}
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/c.db") as catalog:
        table = catalog.create_table(
            "t",
            location=str(tmp_path / "ours"),
            schema=given.schema,
            partition_by=list(given.partition_by),
            properties=properties,
        )
        for data in given.rows():
            table.append(data, txn=("loader", table.version))
        table.overwrite(given.rows()[0])
        catalog.mirror.checkpoint("t")
        key = checkpoint_path(table.version)
    shutil.copytree(tmp_path / "ours", tmp_path / "theirs")
    for name in (key, LAST_CHECKPOINT):
        (tmp_path / "theirs" / name).unlink()
    delta_spark.write_checkpoint(str(tmp_path / "theirs"))
    ours, theirs = tmp_path / "ours" / key, tmp_path / "theirs" / key
    assert columns_of(ours) == columns_of(theirs)
    assert actions_of(ours) == actions_of(theirs)


@ON_POSTGRES_LATER
@pytest.mark.req("R102")
def test_writes_are_refused_until_the_table_is_detached(catalog, tmp_path):
    table = a_table(catalog, tmp_path, properties=KEPT)
    for number in range(3):
        table.append(rows(number, number + 10))
    target = f"delta.`{place(table)}`"
    before = _contents(place(table))
    for statement in (
        f"insert into {target} values (9, 'n9', 'a')",
        f"insert overwrite {target} values (9, 'n9', 'a')",
        f"delete from {target} where id = 1",
        f"update {target} set name = 'x' where id = 1",
        f"merge into {target} t using (select 1L id) u on t.id = u.id when matched then delete",
        f"optimize {target}",
        f"vacuum {target}",
        f"restore table {target} to version as of 1",
        f"alter table {target} set tblproperties ('a' = 'b')",
        f"alter table {target} add columns (z int)",
        f"alter table {target} drop feature deltasqlManaged",
    ):
        with pytest.raises(Exception) as refused:
            delta_spark.run(statement)
        said = delta_spark.complaint(refused.value)
        assert "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE" in said or "drop" in statement, said
        assert "deltasqlManaged" in said, said
    after = {name: data for name, data in _contents(place(table)).items() if name in before}
    assert after == before
    assert _committed(place(table)) == [0, 1, 2, 3]
    check_invariants(catalog, "orders")
    detached = table.detach()
    delta_spark.run(f"insert into {target} values (9, 'n9', 'a')")
    assert _committed(place(table))[-1] == detached + 1
    found = [row["id"] for row in read_delta_spark(place(table))]
    assert sorted(found) == [0, 1, 2, 9, 10, 11, 12]
    newest, ours = delta_spark.history(place(table))[:2]
    assert newest["engineInfo"].startswith("Apache-Spark")
    assert newest["timestamp"] > ours["timestamp"]  # its times go on where ours ended


def _contents(folder: str) -> dict[str, bytes]:
    files = (file for file in Path(folder).rglob("*") if file.is_file())
    return {str(file): file.read_bytes() for file in files}


def _committed(folder: str) -> list[int]:
    return sorted(int(file.stem) for file in Path(folder, "_delta_log").glob("[0-9]*.json"))


@ON_POSTGRES_LATER
def test_appends_of_delta_spark_to_a_contested_log_are_committed_again(catalog_uri, tmp_path):
    """Spark went on in the log while SQL was not mirrored; it left checksums too."""
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path, properties={"deltasql.fence": "false"})
        table.append(rows(1))
        target = f"delta.`{place(table)}`"
        for number in (100, 101):
            delta_spark.run(f"insert into {target} values ({number}, 'n{number}', 'a')")
        commit_unseen(table, 10)
        assert table.state == "conflict"
        done = catalog.mirror.repair("orders", recommit=True)
        assert [one for one in done if not one.done] == []
        assert (table.version, table.state, ids(table)) == (4, "active", [1, 10, 100, 101])
        check_invariants(catalog, "orders", acknowledged={"own-10": 2})
        assert catalog.mirror.verify("orders") == []
        delta_spark.forget()
        for version in (1, 2, 3, 4):
            found = read_delta_spark(place(table), version=version)
            assert found == read_deltasql(table, version=version), version


@ON_POSTGRES_LATER
def test_vectors_of_delta_spark_are_read_once_its_commits_are_adopted(catalog_uri, tmp_path):
    unfenced = {"deltasql.fence": "false", "delta.enableDeletionVectors": "true"}
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path, properties=unfenced)
        table.append(rows(*range(10)))
        table.append(rows(*range(10, 20), day="x/y%"))
        target = f"delta.`{place(table)}`"
        delta_spark.run(f"delete from {target} where id in (3, 13, 14)")
        delta_spark.run(f"update {target} set name = 'changed' where id = 4")
        catalog.mirror.repair("orders", adopt=True)
        assert table.version == 4
        assert ids(table) == [n for n in range(20) if n not in {3, 13, 14}]
        table.append(rows(50))
        catalog.mirror.checkpoint("orders")
        check_invariants(catalog, "orders")
        delta_spark.forget()
        for version in (2, 3, 4, 5):
            found = read_delta_spark(place(table), version=version)
            assert found == read_deltasql(table, version=version), version
