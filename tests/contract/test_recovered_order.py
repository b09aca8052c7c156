"""A catalog that is made again from its log has files in the log's order: its checkpoints stay."""

import random

import pytest

import deltasql
from backups import Backup
from builders import a_remove, a_table, an_add
from deltasql.imports.read import tasks
from deltasql.protocol.log_names import LOG_FOLDER
from deltasql.testing import check_invariants
from foreign import place_of

pytestmark = pytest.mark.req("R99", "R27")


def fill(table, chance):
    """Commit files in no order, some of which are removed later, at once or one by one."""
    live = []
    for number in range(1, 12):
        names = [f"day=a/{number}-{chance.randrange(1000):03d}.parquet" for _ in range(4)]
        gone = chance.sample(live, min(len(live), chance.randrange(3)))
        live = [name for name in live if name not in gone] + names
        table.commit([*map(an_add, names), *(a_remove(an_add(name)) for name in gone)])
    table.wait_mirrored(timeout=20)


def checkpoints(table):
    return sorted(file.name for file in (place_of(table) / LOG_FOLDER).glob("*.checkpoint.parquet"))


@pytest.mark.parametrize(("seed", "versions"), [(0, 1), (1, 4), (2, 1000)])
def test_a_rebuilt_catalog_knows_its_checkpoints(  # noqa: PLR0917 (fixtures)
    catalog_uri, second_uri, tmp_path, monkeypatch, seed, versions
):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        fill(table, random.Random(seed))
        catalog.mirror.run_once()
        for version in (4, 9):
            catalog.mirror.checkpoint("orders", version)
        known, location = checkpoints(table), table.location
        assert catalog.mirror.verify("orders") == []
    assert len(known) == 3
    monkeypatch.setattr(tasks, "TASK_VERSIONS", versions)
    with deltasql.connect(second_uri) as catalog:
        catalog.create_if_missing()
        catalog.mirror.rebuild("orders", location)
        assert catalog.mirror.verify("orders") == [], seed
        for version in (4, 9, 11):
            catalog.mirror.checkpoint("orders", version)
        assert checkpoints(catalog.table("orders"))[: len(known)] == known
        check_invariants(catalog, "orders")


def test_a_restored_backup_knows_the_checkpoint_of_what_it_adopts(catalog_uri, tmp_path, request):
    """A file of two that a version adds is removed later."""
    server = request.getfixturevalue("postgres_server") if "sqlite" not in catalog_uri else None
    backup = Backup(catalog_uri, tmp_path, server)
    with deltasql.connect(catalog_uri) as catalog:
        a_table(catalog, tmp_path).wait_mirrored(timeout=10)
    backup.take()
    with deltasql.connect(catalog_uri) as catalog:
        table = catalog.table("orders")
        for number in range(1, 12):
            table.commit([an_add(f"day=a/{number}-{part}.parquet") for part in (2, 1)])
        table.commit([a_remove(an_add("day=a/3-2.parquet"))])
        table.wait_mirrored(timeout=20)
        catalog.mirror.run_once()
    backup.put_back()
    with deltasql.connect(catalog_uri) as catalog:
        catalog.new_epoch()
    with deltasql.connect(catalog_uri) as catalog:
        assert catalog.mirror.recover("orders").adopted == 12
        catalog.mirror.run_once()
        catalog.mirror.repair("orders")
        assert catalog.mirror.verify("orders") == []
        assert catalog.mirror.checkpoint("orders", 10) == 10
