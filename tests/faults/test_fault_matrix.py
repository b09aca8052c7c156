"""Every fault at every step of the mirror, on every store: the guarantees hold, nobody is blamed.

A cell breaks one step for a while or for good, and is void if the step was never reached. While
it lasts nothing is taken for a conflict and whatever is stuck has alerted; then the store is well
again and one pass of the reconciler ends it. tests/faults/test_http_faults.py has the faults of
the wire (each status, a reset, a cut reply), tests/faults/test_disk_full.py a disk without room.

Cells that make no sense, by kind:
  FAIL_AFTER              only what writes can take effect and lose its reply
  EXISTS_THOUGH_OURS      only a conditional put is answered so (412)
  EXISTS_WITHOUT_EFFECT   the same (409)
  TRUNCATE                only a read returns bytes; `head` and `list` return none, and a reply
                          to a write is not looked at
  STALE_READ              only a read can be old; the list has a kind of its own
  STALE_LIST              only the list; no step but `list` makes one
"""

import uuid

import pytest

from deltasql.testing.faulty_store import Fault, FaultyStore, Kind
from fault_steps import STEPS, Weather, suffer
from plugins.store_fixtures import _place

PLACES = ["s3", "azure", "gcs"]
CELLS = [
    pytest.param(kind, step, id=f"{kind.name}-{step}")
    for kind in Kind
    for step, where in STEPS.items()
    if where.faults(kind, None)
]


class Faults:
    """The faults of one cell: switched on and off, counted over all stores."""

    def __init__(self, faults: list[Fault]) -> None:
        self.is_on = False
        self._faults = faults
        self._ill: list[FaultyStore] = []

    def wrap(self, store):
        ill = FaultyStore(store, self._faults, sleep=lambda _: None)
        self._ill.append(ill)
        return Switch(store, ill, self)

    def strikes(self, kind: Kind) -> int:
        return sum(call.kind is kind for ill in self._ill for call in ill.calls)


class Switch:
    """A store that is ill while its cell's faults are on."""

    def __init__(self, well, ill: FaultyStore, faults: Faults) -> None:
        self._well, self._ill, self._faults = well, ill, faults

    def __getattr__(self, name: str):
        return getattr(self._ill if self._faults.is_on else self._well, name)


def _suffer(uri, place: tuple[str, dict[str, str]], cell: tuple[Kind, str, int | None]) -> None:
    (location, options), (kind, step, times) = place, cell
    faults = Faults(STEPS[step].faults(kind, times))

    def switch(to: bool) -> None:
        faults.is_on = to

    weather = Weather(lambda: switch(True), lambda: switch(False), lambda: faults.strikes(kind))
    suffer(uri, location, weather, storage_options=options, wrap_store=faults.wrap)


@pytest.mark.parametrize("times", [3, None], ids=["a while", "for good"])
@pytest.mark.parametrize(("kind", "step"), CELLS)
def test_a_fault_on_local_files(tmp_path, kind, step, times):
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    _suffer(uri, (str(tmp_path / "table"), {}), (kind, step, times))


def _on_stores():
    """The stores take turns in verify; in the soak each has every cell."""
    for number, cell in enumerate(CELLS):
        for turn, place in enumerate(PLACES):
            size = pytest.mark.verify if number % len(PLACES) == turn else pytest.mark.soak
            yield pytest.param(place, *cell.values, marks=size, id=f"{place}-{cell.id}")


@pytest.mark.parametrize(("place", "kind", "step"), list(_on_stores()))
def test_a_fault_on_an_object_store(request, tmp_path, place, kind, step):
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    where = _place(place, request, tmp_path, f"matrix-{uuid.uuid4().hex[:8]}")
    _suffer(uri, where, (kind, step, None))
