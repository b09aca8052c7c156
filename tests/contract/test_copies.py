"""The log of a read-only import is others': nothing of ours is ever put there or deleted."""

from datetime import timedelta

import pytest

import deltasql
from builders import NO_MIRROR
from deltasql.errors import NotResumableError, TableStateError
from deltasql.imports.job import TableImport
from deltasql.settings import MirrorSettings, Settings
from histories import History
from legacy import fingerprint

pytestmark = pytest.mark.req("R77", "R103")
# every second version would have a checkpoint
EAGER = Settings(mirror=MirrorSettings(checkpoint_interval=2))


@pytest.fixture
def source(tmp_path):
    return History(5, versions=25, vectors=False).write(tmp_path / "t")


@pytest.fixture
def catalog(catalog_uri, source):
    with deltasql.connect(catalog_uri, settings=EAGER) as opened:
        opened.create_if_missing()
        TableImport(opened._lazy.create().connection, str(source), "t").run()
        yield opened


CALLS = {
    "verify": lambda catalog: catalog.mirror.verify("t"),
    "repair": lambda catalog: catalog.mirror.repair("t"),
    "replace": lambda catalog: catalog.mirror.repair("t", replace=True),
    "checkpoint": lambda catalog: catalog.mirror.checkpoint("t"),
    "cleanup": lambda catalog: catalog.mirror.cleanup("t"),
    "recover": lambda catalog: catalog.mirror.recover("t"),
    "vacuum": lambda catalog: catalog.table("t").vacuum(retain=timedelta(0), dry_run=False),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_would_write_or_delete_there_is_refused(catalog, source, name):
    before = fingerprint(source)
    with pytest.raises(TableStateError, match="its log is written by others") as refused:
        CALLS[name](catalog)
    assert "catalog.cutover('t')" in refused.value.advice
    assert fingerprint(source) == before


def test_a_worker_leaves_it_alone(catalog, source):
    before = fingerprint(source)
    swept = catalog.mirror.run_once()
    assert swept.failed == 0
    assert fingerprint(source) == before


def test_after_the_cutover_the_worker_takes_care_of_it(catalog, source):
    catalog.cutover("t")
    catalog.mirror.run_once()
    assert (source / f"_delta_log/{24:020d}.checkpoint.parquet").exists()
    assert "_deltasql" in {path.name for path in (source / "_delta_log").iterdir()}


@pytest.mark.parametrize("name", [name for name in CALLS if name != "verify"])
def test_a_log_that_was_given_back_is_left_alone(catalog, source, name):
    catalog.cutover("t")
    catalog.table("t").detach()
    before = fingerprint(source)
    with pytest.raises(TableStateError, match="belongs to others by now") as refused:
        CALLS[name](catalog)
    assert "force=True" in refused.value.advice
    assert fingerprint(source) == before


def test_a_worker_leaves_alone_what_was_given_back(catalog, catalog_uri, source):
    """It had a checkpoint to write, and would have put its marker there for it."""
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as other:
        other.cutover("t")
        other.table("t").detach()
    before = fingerprint(source)
    assert "_deltasql" not in {path.name for path in (source / "_delta_log").iterdir()}
    catalog.mirror.run_once()
    assert fingerprint(source) == before
    assert catalog.mirror.verify("t") == []


def test_a_table_that_was_let_go_is_not_purged_and_does_not_go_on(catalog, source):
    catalog.table("t").detach()
    before = fingerprint(source)
    with pytest.raises(TableStateError, match="belong to a log that others write"):
        catalog.drop("t", purge=True)
    with pytest.raises(NotResumableError, match="was detached") as refused:
        catalog.import_table(str(source), "t", engine="local", resume=True)
    assert "force=True" in refused.value.advice
    catalog.import_table(str(source), "other", engine="local")
    catalog.drop("t")
    assert fingerprint(source) == before
    assert [info.name for info in catalog.tables()] == ["other"]
