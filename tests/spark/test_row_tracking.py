"""Tables that track their rows: our commits number them as Delta Spark does, and it goes on."""

import pytest

import delta_spark
import deltasql
from builders import ids
from deltasql.errors import UnsupportedFeatureError
from deltasql.spark import write
from deltasql.testing import check_invariants

pytestmark = pytest.mark.usefixtures("spark", "needs_delta")
TRACKED = "tblproperties ('delta.enableRowTracking' = 'true')"


@pytest.fixture
def place(session, uri, tmp_path):
    """The same table twice, with three rows: `ours` is under SQL, `theirs` stays with Delta."""
    for name in ("ours", "theirs"):
        session.sql(f"create table delta.`{tmp_path / name}` (id long) using delta {TRACKED}")
        frame(session, 0, 3).write.format("delta").mode("append").save(str(tmp_path / name))
    with deltasql.connect(uri) as catalog:
        catalog.import_table(str(tmp_path / "ours"), "t", engine="local")
        catalog.cutover("t")
    return tmp_path


def frame(session, first, last):
    return session.range(first, last, numPartitions=1)


def row_ids(session, place) -> dict[int, tuple[int, int]]:
    delta_spark.forget()
    found = session.read.format("delta").load(str(place))
    rows = found.select("id", "_metadata.row_id", "_metadata.row_commit_version").collect()
    return {row.id: (row.row_id, row.row_commit_version) for row in rows}


def test_rows_are_numbered_as_by_delta(session, uri, place):
    first = row_ids(session, place / "ours")
    assert first == {0: (0, 1), 1: (1, 1), 2: (2, 1)}
    theirs = str(place / "theirs")
    write(frame(session, 3, 6), uri, "t")
    write(frame(session, 6, 8), uri, "t", max_records_per_file=1000)
    frame(session, 8, 9).write.format("deltasql").mode("append").option("table", "t").save(uri)
    for some in ((3, 6), (6, 8), (8, 9)):
        frame(session, *some).write.format("delta").mode("append").save(theirs)
    ours, plain = row_ids(session, place / "ours"), row_ids(session, theirs)
    assert {key: row for key, (row, _) in ours.items()} == {k: row for k, (row, _) in plain.items()}
    assert {key: ours[key] for key in first} == first
    with deltasql.connect(uri) as catalog:
        table = catalog.table("t")
        # the version of the commit, which the cut-over has moved up
        assert [ours[key][1] for key in (3, 6, 8)] == [n + table.version for n in (-2, -1, 0)]
        check_invariants(catalog, "t")
        assert catalog.mirror.verify("t") == []


@pytest.mark.verify
def test_overwrite_and_restore(session, uri, place):
    before = row_ids(session, place / "ours")
    write(frame(session, 10, 12), uri, "t", mode="overwrite")
    assert {row for row, _ in row_ids(session, place / "ours").values()} == {3, 4}
    with deltasql.connect(uri) as catalog:
        table = catalog.table("t")
        table.restore(version=table.version - 1)
    assert row_ids(session, place / "ours") == before
    write(frame(session, 20, 21), uri, "t")
    assert row_ids(session, place / "ours")[20][0] == 5


@pytest.mark.verify
def test_delta_spark_goes_on(session, uri, place):
    write(frame(session, 3, 5), uri, "t")
    with deltasql.connect(uri) as catalog:
        catalog.table("t").detach()
    delta_spark.forget()
    ours = str(place / "ours")
    frame(session, 5, 7).write.format("delta").mode("append").save(ours)
    session.sql(f"delete from delta.`{ours}` where id = 4")
    session.sql(f"optimize delta.`{ours}`")
    found = row_ids(session, ours)
    assert {key: row for key, (row, _) in found.items()} == {0: 0, 1: 1, 2: 2, 3: 3, 5: 5, 6: 6}


def test_what_would_lose_ids_is_refused(session, uri, place, tmp_path):
    write(frame(session, 3, 5), uri, "t")
    with deltasql.connect(uri) as catalog:
        table = catalog.table("t")
        with pytest.raises(UnsupportedFeatureError, match="tracks its rows"):
            table.compact()
        with pytest.raises(UnsupportedFeatureError, match="tracks its rows"):
            write(frame(session, 5, 6), uri, "t", data_change=False)
        assert ids(table) == list(range(5))
        # switching it on is more than a property: Delta Spark does it
        with pytest.raises(UnsupportedFeatureError, match="rowTracking"):
            catalog.create_table(
                "new",
                location=str(tmp_path / "new"),
                schema=table.schema,
                properties={"delta.enableRowTracking": "true"},
            )
        plain = catalog.create_table("plain", location=str(tmp_path / "p"), schema=table.schema)
        with pytest.raises(UnsupportedFeatureError, match="rowTracking"):
            plain.alter(properties={"delta.enableRowTracking": "true"})
