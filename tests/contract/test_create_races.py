"""A place belongs to one catalog before a create is acknowledged."""

import threading
import uuid

import pytest

import deltasql
from backups import Backup
from builders import NO_MIRROR, SCHEMA, ids, rows
from deltasql.errors import OwnershipError, TableExistsError, TableStateError
from deltasql.log.owner_marker import OWNER_KEY, Owner, encode_owner
from deltasql.settings import Settings
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants


@pytest.fixture
def other(tmp_path):
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/other.db", settings=NO_MIRROR) as opened:
        opened.create_if_missing()
        yield opened


@pytest.mark.parametrize("settings", [NO_MIRROR, Settings()], ids=["off", "inline"])
def test_of_two_catalogs_that_create_at_one_place_one_is_refused(
    catalog_uri, other, tmp_path, settings
):
    place, made = str(tmp_path / "lake"), []

    def create_first(name):
        if name == "before-place-taken" and not made:
            made.append(name)
            made.append(other.create_table("theirs", location=place, schema=SCHEMA))

    with deltasql.connect(catalog_uri, settings=settings) as catalog:
        with hooked(create_first), pytest.raises(TableExistsError, match="is taken: The log at"):
            catalog.create_table("ours", location=place, schema=SCHEMA)
        assert catalog.tables() == []
        made[1].append(rows(1))
        inspect(other).engine.catch_up(made[1].table_id, seconds=10)
        check_invariants(other, "theirs")
        assert ids(other.table("theirs")) == [1]


class StopError(Exception):
    """The process ends here."""


def stop(name):
    if name == "after-place-taken":
        raise StopError


def test_a_place_that_was_taken_by_a_create_that_died_is_free_for_its_catalog_only(
    catalog, other, tmp_path
):
    place = tmp_path / "lake"
    with hooked(stop), pytest.raises(StopError):
        catalog.create_table("orders", location=str(place), schema=SCHEMA)
    assert catalog.tables() == []
    assert (place / OWNER_KEY).exists()
    with pytest.raises(TableExistsError):
        other.create_table("theirs", location=str(place), schema=SCHEMA)
    table = catalog.create_table("orders", location=str(place), schema=SCHEMA)
    table.append(rows(1))
    table.wait_mirrored(timeout=10)
    check_invariants(catalog, "orders")


def test_many_that_create_one_table_at_once_get_the_same(catalog_uri, tmp_path):
    place, found = str(tmp_path / "lake"), []

    def create():
        with deltasql.connect(catalog_uri) as mine:
            made = mine.create_table("orders", location=place, schema=SCHEMA, exist_ok=True)
            found.append(made.table_id)

    with deltasql.connect(catalog_uri) as catalog:
        catalog.create_if_missing()
        threads = [threading.Thread(target=create) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 6
    assert len(set(found)) == 1
    with deltasql.connect(catalog_uri) as catalog:
        table = catalog.table("orders")
        table.append(rows(1))
        table.wait_mirrored(timeout=10)
        check_invariants(catalog, "orders")


def test_a_create_that_is_refused_leaves_no_marker(catalog, tmp_path):
    """The name is taken between the plan and the commit: the location stays free for everybody."""
    place, made = tmp_path / "lake", []

    def create_first(name):
        if name == "before-place-taken" and not made:
            made.append(name)
            catalog.create_table("orders", location=str(tmp_path / "first"), schema=SCHEMA)

    with hooked(create_first), pytest.raises(TableExistsError):
        catalog.create_table("orders", location=str(place), schema=SCHEMA)
    assert not (place / OWNER_KEY).exists()
    assert (tmp_path / "first" / OWNER_KEY).exists()


def test_a_create_gets_its_marker_back_that_another_one_took_for_a_leftover(catalog, tmp_path):
    """Two creates of one catalog at one place: SQL decides, and the marker says the same."""
    place, taken = tmp_path / "lake", []

    def take(name):
        if name == "after-place-taken" and not taken:
            taken.append(name)
            other = Owner(catalog_id, 1, str(uuid.uuid4()))
            (place / OWNER_KEY).write_bytes(encode_owner(other))

    catalog_id = inspect(catalog).metastore.identity.catalog_id
    with hooked(take):
        table = catalog.create_table("orders", location=str(place), schema=SCHEMA)
    assert taken
    table.append(rows(1))
    table.wait_mirrored(timeout=10)
    check_invariants(catalog, "orders")


def stopped_at(point, work):
    def stop_there(name):
        if name == point:
            raise StopError

    with hooked(stop_there), pytest.raises(StopError):
        work()


def test_a_table_whose_create_died_before_its_marker_was_settled_gets_it_by_its_first_commit(
    catalog_uri, tmp_path
):
    """The marker names an older create that died; SQL has the table all the same."""
    place = tmp_path / "lake"

    def create():
        with deltasql.connect(catalog_uri) as catalog:
            catalog.create_table("orders", location=str(place), schema=SCHEMA)

    stopped_at("after-place-taken", create)
    left = (place / OWNER_KEY).read_bytes()
    stopped_at("before-marker-settled", create)
    assert (place / OWNER_KEY).read_bytes() == left
    with deltasql.connect(catalog_uri) as catalog:
        table = catalog.table("orders")
        table.append(rows(1))
        table.wait_mirrored(timeout=10)
        assert table.table_id in (place / OWNER_KEY).read_text()
        check_invariants(catalog, "orders")


def test_the_log_of_a_table_that_a_restored_backup_does_not_know_is_left_alone(
    catalog_uri, tmp_path, request
):
    """Its marker looks like one left by a create that died; its commits say that it is not."""
    server = request.getfixturevalue("postgres_server") if "sqlite" not in catalog_uri else None
    backup, place = Backup(catalog_uri, tmp_path, server), tmp_path / "lake"
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        catalog.create_table("old", location=str(place), schema=SCHEMA)
    backup.take()
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        catalog.drop("old", purge=True)
    with deltasql.connect(catalog_uri) as catalog:
        catalog.create_table("new", location=str(place), schema=SCHEMA).append(rows(1))
    before = {file.name: file.read_bytes() for file in (place / "_delta_log").iterdir()}
    backup.put_back()
    with deltasql.connect(catalog_uri) as catalog:
        with pytest.raises(OwnershipError):
            catalog.table("old").append(rows(2))
        assert catalog.table("old").version == 0
    assert {file.name: file.read_bytes() for file in (place / "_delta_log").iterdir()} == before


def test_exist_ok_does_not_hide_that_the_location_is_another_catalogs(catalog, other, tmp_path):
    place = str(tmp_path / "lake")
    other.create_table("theirs", location=place, schema=SCHEMA)
    with pytest.raises(TableExistsError):
        catalog.create_table("ours", location=place, schema=SCHEMA, exist_ok=True)
    assert catalog.tables() == []


def test_a_create_that_was_made_is_not_reported_as_failed(catalog, other, tmp_path):
    """Another catalog has taken the marker: the next commit is refused, the create was made."""
    place = tmp_path / "lake"

    def take(name):
        if name == "before-marker-settled":
            owner = Owner(other.catalog_id, 1, str(uuid.uuid4()))
            (place / OWNER_KEY).write_bytes(encode_owner(owner))

    other.create_if_missing()
    with hooked(take):
        table = catalog.create_table("orders", location=str(place), schema=SCHEMA)
    assert [info.name for info in catalog.tables()] == ["orders"]
    with pytest.raises((OwnershipError, TableStateError)):
        table.append(rows(1))
    assert table.version == 0
