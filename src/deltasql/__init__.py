"""deltasql: Delta Lake tables with SQL as the source of truth.

Names are loaded when they are first used, so that `import deltasql` is instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltasql.version import __version__

if TYPE_CHECKING:
    from deltasql.api.catalog import Catalog
    from deltasql.api.connect import connect
    from deltasql.api.scan import Scan
    from deltasql.api.table import Table
    from deltasql.api.transaction import Transaction
    from deltasql.errors import DeltaSqlError
    from deltasql.maintenance.unfence import unfence
    from deltasql.metastore.snapshot.snapshot import Snapshot
    from deltasql.settings import Settings

__all__ = [
    "Catalog",
    "DeltaSqlError",
    "Scan",
    "Settings",
    "Snapshot",
    "Table",
    "Transaction",
    "__version__",
    "connect",
    "unfence",
]

_HOMES = {
    "Catalog": "deltasql.api.catalog",
    "DeltaSqlError": "deltasql.errors",
    "Scan": "deltasql.api.scan",
    "Settings": "deltasql.settings",
    "Snapshot": "deltasql.metastore.snapshot.snapshot",
    "Table": "deltasql.api.table",
    "Transaction": "deltasql.api.transaction",
    "connect": "deltasql.api.connect",
    "unfence": "deltasql.maintenance.unfence",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'deltasql' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 (only when a name is first used)

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
