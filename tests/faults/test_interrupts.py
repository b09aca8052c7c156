"""Ctrl-C at any moment leaves nobody locked out, nothing stale and no commit twice."""

import pytest

import deltasql
import processes
from builders import NO_MIRROR, a_table, an_add
from deltasql.testing.invariants import check_invariants

pytestmark = pytest.mark.req("R2")


def _interrupt(uri: str, tmp_path, seed: int, count: int) -> None:
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        worker = processes.start("append_interrupted", uri, "orders", str(seed), str(count))
        acknowledged = processes.finish(worker)
        acknowledged["other"] = table.commit([an_add("other")], commit_id="other")
        assert len(acknowledged) == count + 1
        check_invariants(catalog, "orders", acknowledged=acknowledged)


def test_interrupts_at_random_moments_lock_nobody_out(catalog_uri, tmp_path):
    _interrupt(catalog_uri, tmp_path, seed=1, count=60)


@pytest.mark.verify
def test_five_hundred_interrupts_at_random_moments_lock_nobody_out(catalog_uri, tmp_path):
    _interrupt(catalog_uri, tmp_path, seed=2, count=500)
