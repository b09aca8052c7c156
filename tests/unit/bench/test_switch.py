"""The benchmarks' stores: a bucket that is switched off refuses, in every process at once."""

import pytest
from bench.switch import SCHEME, Switches, switch

import deltasql
from builders import SCHEMA, an_add
from deltasql.errors import StorageUnavailableError
from deltasql.storage.memory import MemoryStore


def store_at(folder, bucket: str):
    return Switches(str(folder))(MemoryStore(f"{SCHEME}{bucket}/t"))


def test_a_bucket_that_is_down_refuses_and_the_other_answers(tmp_path):
    one, other = store_at(tmp_path, "one"), store_at(tmp_path, "other")
    switch(str(tmp_path), "one", is_down=True)
    with pytest.raises(StorageUnavailableError):
        one.put_if_absent("k", b"1")
    other.put_if_absent("k", b"2")
    switch(str(tmp_path), "one", is_down=False)
    one.put_if_absent("k", b"1")
    assert (one.get("k"), other.get("k")) == (b"1", b"2")


def test_two_openings_of_a_bucket_see_the_same_objects(tmp_path):
    store_at(tmp_path, "one").put_if_absent("k", b"1")
    assert store_at(tmp_path, "one").get("k") == b"1"


def test_a_catalog_mirrors_through_the_switch(tmp_path):
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    with deltasql.connect(uri, wrap_store=Switches(str(tmp_path))) as catalog:
        table = catalog.create_table(
            "orders", location=f"{SCHEME}one/orders", schema=SCHEMA, partition_by=["day"]
        )
        switch(str(tmp_path), "one", is_down=True)
        table.commit([an_add("f")])
        assert catalog.mirror.status("orders")["lag_versions"] == 1
        switch(str(tmp_path), "one", is_down=False)
        assert catalog.mirror.run_once().mirrored == 1
        assert catalog.mirror.verify("orders") == []
    assert (tmp_path / "one/orders/_delta_log/00000000000000000001.json").exists()
