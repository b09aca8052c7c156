"""Independent readers see in the mirrored log what SQL says, without knowing of deltasql."""

import pytest

import deltasql
import servers
from builders import a_table, rows
from deltasql.errors import UnsafeStoreError
from deltasql.testing.invariants import check_invariants
from readers import READERS, read_deltasql
from typed_table import TYPES, typed_rows


@pytest.mark.req("R26")
@pytest.mark.parametrize("reader", list(READERS))
def test_readers_see_what_sql_says(catalog_uri, tmp_path, reader):
    with deltasql.connect(catalog_uri) as catalog:
        table = catalog.create_table(
            "typed", location=str(tmp_path / "typed"), schema=TYPES, partition_by=["p"]
        )
        table.append(typed_rows(0, "plain"))
        table.append(typed_rows(5, "a b/c%d#e=é"))
        table.append(typed_rows(10, None))
        table.delete("p = 'plain'")
        table.append(typed_rows(15, "plain"))
        table.compact()
        check_invariants(catalog, "typed")
        found = READERS[reader](str(tmp_path / "typed"))
        assert len(found) == 15
        assert found == read_deltasql(table)


@pytest.mark.parametrize("reader", ["deltalake", "polars"])
def test_readers_travel_in_time_by_version(catalog_uri, tmp_path, reader):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        place = table.location.removeprefix("file://")
        for number in range(3):
            table.append(rows(number, day="ab"[number % 2]))
        table.overwrite(rows(9))
        for version in range(1, 5):
            found = READERS[reader](place, version=version)
            assert found == read_deltasql(table, version=version)


@pytest.mark.parametrize("reader", list(READERS))
def test_readers_see_the_log_on_an_object_store(catalog_uri, s3_server, fresh_name, reader):
    options = servers.s3_options(s3_server.endpoint)
    location = f"s3://{servers.BUCKET}/{fresh_name}"
    with deltasql.connect(catalog_uri, storage_options=options) as catalog:
        table = catalog.create_table(
            "orders", location=location, schema=rows(1).schema, partition_by=["day"]
        )
        table.append(rows(1, 2, day="a"))
        table.append(rows(3, day="b"))
        table.delete("day = 'a'")
        check_invariants(catalog, "orders")
        plain = {key: value for key, value in options.items() if "proxy" not in key}
        assert READERS[reader](location, plain) == read_deltasql(table)


def test_stock_writers_refuse_a_fenced_table_until_it_is_detached(tmp_path):
    import deltalake

    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/c.db") as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        place = table.location.removeprefix("file://")
        with pytest.raises(Exception, match=r"[Ff]eature|writer|deltasqlManaged"):
            deltalake.write_deltalake(place, rows(2), mode="append")
        assert deltalake.DeltaTable(place).version() == 1
        table.detach()
        deltalake.write_deltalake(place, rows(2), mode="append")
        assert len(READERS["deltalake"](place)) == 2


def test_unfence_works_from_the_log_alone(tmp_path):
    import deltalake

    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/c.db") as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        place = table.location.removeprefix("file://")
    (tmp_path / "c.db").unlink()
    shown = deltasql.unfence(place, dry_run=True)
    assert (shown.version, shown.was_fenced, shown.written_version) == (1, True, None)
    done = deltasql.unfence(place)
    assert done.written_version == 2
    found = deltalake.DeltaTable(place)
    assert found.version() == 2
    assert "deltasqlManaged" not in found.protocol().writer_features
    assert deltasql.unfence(place).written_version is None


def test_a_store_that_ignores_conditions_is_refused(careless_s3_server, tmp_path, fresh_name):
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    options = servers.s3_options(careless_s3_server.endpoint)
    location = f"s3://{servers.BUCKET}/{fresh_name}"
    with deltasql.connect(uri, storage_options=options) as catalog:
        with pytest.raises(UnsafeStoreError):
            catalog.create_table("t", location=location, schema=rows(1).schema)
        assert catalog.tables() == []
