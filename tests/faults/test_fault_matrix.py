"""Every fault at every step of the mirror, on every store: the guarantees hold, nobody is blamed.

A cell breaks one step for a while; then the store is well again and a pass of the reconciler ends
it. Cells that make no sense are those that `Fault` itself refuses to strike: a write cannot be
stale, a read cannot exist already, a listing cannot be cut.
"""

import uuid

import pytest

import deltasql
from builders import SCHEMA, rows
from deltasql.protocol.files import LAST_CHECKPOINT
from deltasql.settings import MirrorSettings, Settings
from deltasql.testing.faults import Fault, Kind
from deltasql.testing.faulty import FaultyStore
from deltasql.testing.invariants import check_invariants
from plugins.store_fixtures import _place

WORKER = Settings(mirror=MirrorSettings(mode="worker", checkpoint_interval=2))
CHECKPOINT = "*.checkpoint.parquet"
STEPS = {
    "commit put": ("put_if_absent", "*.json"),
    "commit read back": ("get", "*.json"),
    "owner marker": ("*", "*_deltasql"),
    "checkpoint put": ("put_if_absent", CHECKPOINT),
    "checkpoint look": ("head", CHECKPOINT),
    "checkpoint read back": ("open_input", CHECKPOINT),
    "hint put": ("put", LAST_CHECKPOINT),
    "hint read": ("get", LAST_CHECKPOINT),
    "log ahead look": ("head", "*.json"),
}
CELLS = [
    pytest.param(kind, step, id=f"{kind.name}-{step}")
    for kind in Kind
    for step, (operation, _) in STEPS.items()
    if kind is not Kind.STALE_LIST
    and Fault(kind).strikes(operation if operation != "*" else "get", "x")
]
LASTING = 3


class Switch:
    """A store whose faults a test switches on and off; one script counts for all its calls."""

    def __init__(self, inner, faults: list[Fault]) -> None:
        self._well, self._faults, self._ill = inner, faults, None

    def __getattr__(self, name: str):
        if not self._faults:
            return getattr(self._well, name)
        if self._ill is None:
            self._ill = FaultyStore(self._well, tuple(self._faults), sleep=lambda _: None)
        return getattr(self._ill, name)


def _suffer(uri: str, location: str, options: dict[str, str], kind: Kind, step: str) -> None:
    faults: list[Fault] = []
    operation, key = STEPS[step]
    with deltasql.connect(
        uri,
        settings=WORKER,
        storage_options=options,
        wrap_store=lambda store: Switch(store, faults),
    ) as catalog:
        table = catalog.create_table("t", location=location, schema=SCHEMA)
        table.wait_mirrored()
        for number in range(3):
            table.append(rows(number))
        catalog._session.engine.ownership.forget(table.table_id)
        faults.append(Fault(kind, operation, key, times=LASTING, seconds=0.01, keep=5))
        for _ in range(2):
            catalog.mirror.run_once()
        assert table.state == "active", f"{kind.name} at {step} was taken for a conflict"
        faults.clear()
        table.append(rows(9))
    with deltasql.connect(uri, settings=WORKER, storage_options=options) as catalog:
        catalog.mirror.run_once()
        check_invariants(catalog, "t")
        assert catalog.mirror.verify("t") == []
        assert catalog.table("t").version == 4


@pytest.mark.parametrize(("kind", "step"), CELLS)
def test_a_fault_on_local_files(tmp_path, kind, step):
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    _suffer(uri, str(tmp_path / "table"), {}, kind, step)


@pytest.mark.verify
@pytest.mark.parametrize(("kind", "step"), CELLS)
@pytest.mark.parametrize("place", ["s3", "azure", "gcs"])
def test_a_fault_on_an_object_store(request, tmp_path, place, kind, step):
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    location, options = _place(place, request, tmp_path, f"matrix-{uuid.uuid4().hex[:8]}")
    _suffer(uri, location, options, kind, step)
