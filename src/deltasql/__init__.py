"""deltasql: Delta Lake tables with SQL as the source of truth.

Names are loaded when they are first used, so that `import deltasql` is instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltasql.version import __version__

if TYPE_CHECKING:
    from deltasql.catalog.snapshots import Snapshot
    from deltasql.client.catalog import Catalog
    from deltasql.client.connect import connect
    from deltasql.client.scan import Scan
    from deltasql.client.table import Table
    from deltasql.client.transaction import Transaction
    from deltasql.client.unfence import unfence
    from deltasql.errors import DeltaSqlError
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
    "Catalog": "deltasql.client.catalog",
    "DeltaSqlError": "deltasql.errors",
    "Scan": "deltasql.client.scan",
    "Settings": "deltasql.settings",
    "Snapshot": "deltasql.catalog.snapshots",
    "Table": "deltasql.client.table",
    "Transaction": "deltasql.client.transaction",
    "connect": "deltasql.client.connect",
    "unfence": "deltasql.client.unfence",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'deltasql' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 (only when a name is first used)

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
