"""The mirror: logs follow SQL, version by version, byte by byte.

`engine` puts commits, `queue` knows what is missing, `after_commit` and `worker` drive it, and
`compare` verifies a log. Maintenance and the API may import it; it does not know imports. The
names below are those of the mirror's documentation, loaded when they are first used. Start with
`engine`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltasql.log.checkpoint_writer import CheckpointWriter
    from deltasql.mirror.engine import MirrorEngine
    from deltasql.mirror.queue import MirrorStatusTracker
    from deltasql.mirror.worker.reconciler import MirrorReconciler, ReconciliationConfig
    from deltasql.protocol.codec import serialize_actions

__all__ = [
    "CheckpointWriter",
    "MirrorEngine",
    "MirrorReconciler",
    "MirrorStatusTracker",
    "ReconciliationConfig",
    "serialize_actions",
]

_HOMES = {
    "CheckpointWriter": "deltasql.log.checkpoint_writer",
    "MirrorEngine": "deltasql.mirror.engine",
    "MirrorReconciler": "deltasql.mirror.worker.reconciler",
    "MirrorStatusTracker": "deltasql.mirror.queue",
    "ReconciliationConfig": "deltasql.mirror.worker.reconciler",
    "serialize_actions": "deltasql.protocol.codec",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'deltasql.mirror' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 (only when a name is first used)

    return getattr(import_module(home), name)
