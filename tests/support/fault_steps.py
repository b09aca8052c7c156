"""The steps of the mirror that a fault can strike, and one walk through all of them.

A step is reached by a prelude where it needs one: a read back comes only after a put whose
outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import deltasql
from builders import SCHEMA, rows
from deltasql.errors import StorageError
from deltasql.events import Alert, CheckpointFailed, Event
from deltasql.mirror.worker.alerts import AlertDesk
from deltasql.protocol.log_names import LAST_CHECKPOINT
from deltasql.settings import MirrorSettings, Settings
from deltasql.testing import inspect
from deltasql.testing.faulty_store import Fault, Kind
from deltasql.testing.invariants import check_invariants

WORKER = Settings(mirror=MirrorSettings(mode="worker", checkpoint_interval=2))
CHECKPOINT = "*.checkpoint.parquet"
PASSES = 5  # as many attempts as make a version stuck


@dataclass(frozen=True)
class Step:
    """Where a fault strikes: the calls, and what must go wrong before they are made."""

    operations: tuple[str, ...]
    key: str
    prelude: tuple[Fault, ...] = ()

    def faults(self, kind: Kind, times: int | None) -> list[Fault]:
        """Return the faults of a cell; none where the kind cannot strike here."""
        found = [
            Fault(kind, operation, self.key, times=times, seconds=0.01, keep=5)
            for operation in self.operations
            if Fault(kind).strikes(operation, "x")
        ]
        return [*self.prelude, *found] if found else []


def _lost(key: str) -> tuple[Fault, ...]:
    return (Fault(Kind.FAIL_AFTER, "put_if_absent", key, times=None),)


STEPS = {
    "commit put": Step(("put_if_absent",), "*.json"),
    "commit read back": Step(("get",), "*.json", _lost("*.json")),
    "owner marker": Step(("get",), "*_deltasql"),
    "checkpoint put": Step(("put_if_absent",), CHECKPOINT),
    "checkpoint look": Step(("head",), CHECKPOINT),
    "checkpoint verify": Step(("open_input", "get_range"), CHECKPOINT, _lost(CHECKPOINT)),
    "hint put": Step(("put",), LAST_CHECKPOINT),
    "hint read": Step(("get",), LAST_CHECKPOINT),
    "log ahead look": Step(("head",), "*.json"),
    "list": Step(("list_from",), "*"),
}


@dataclass
class Weather:
    """What a table's store suffers: `begin` and `end` it, `strikes` counts what was struck."""

    begin: Callable[[], None]
    end: Callable[[], None]
    strikes: Callable[[], int]


def suffer(uri: str, location: str, weather: Weather, **options) -> None:
    """Walk through every step in bad weather; afterwards all is well without a hand."""
    told: list[Alert] = []
    events: list[Event] = []
    with deltasql.connect(uri, settings=WORKER, sink=events.append, **options) as catalog:
        table = catalog.create_table("t", location=location, schema=SCHEMA)
        table.wait_mirrored()
        for number in range(3):
            table.append(rows(number))
        inspect(catalog).connection.ownership.forget(table.table_id)
        reconciler = catalog.mirror.reconciler()
        reconciler.desk = AlertDesk([told.append])
        weather.begin()
        for _ in range(PASSES):
            reconciler.run_once()
            inspect(catalog).mirroring.checkpoints.finish()
        _look(catalog)
        assert weather.strikes(), "the step was never reached"
        assert table.state == "active", "it was taken for a conflict"
        is_behind = catalog.mirror.status("t")["lag_versions"] > 0
        assert [alert.kind for alert in told] == (["mirror_stuck"] if is_behind else [])
        failed = any(isinstance(event, CheckpointFailed) for event in events)
        weather.end()
        assert is_behind or failed or _hinted(catalog, table), "nobody heard of the checkpoint"
        table.append(rows(9))
    options.pop("wrap_store", None)
    with deltasql.connect(uri, settings=WORKER, **options) as catalog:
        catalog.mirror.run_once()
        check_invariants(catalog, "t")
        assert catalog.mirror.verify("t") == []
        table = catalog.table("t")
        assert (table.version, table.state) == (4, "active")
        assert _hinted(catalog, table)


def _look(catalog: deltasql.Catalog) -> None:
    """Those who list the log say that they cannot, or tell nothing that is not so."""
    for look in (catalog.mirror.verify, catalog.mirror.cleanup):
        try:
            found = look("t")
        except StorageError:
            continue
        assert [str(one) for one in found if "foreign" in str(one) or "unknown" in str(one)] == []


def _hinted(catalog: deltasql.Catalog, table: deltasql.Table) -> bool:
    newest = inspect(catalog).connection.log_files.newest_checkpoint(table.table_id)
    if newest is None:
        return False
    store = inspect(catalog).connection.store_of(table._row)
    try:
        return f'"version":{newest.version}'.encode() in store.get(LAST_CHECKPOINT)
    except StorageError:
        return False
