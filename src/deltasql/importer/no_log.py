"""What to tell when there is no Delta table where one was expected."""

from __future__ import annotations

from deltasql.protocol.files import LOG_FOLDER
from deltasql.storage.port import ObjectStore

_NAMED = 3
_LOOKED_AT = 200


def look_around(store: ObjectStore) -> str:
    """Return a hint: what lies at the place, or what else the caller may have meant."""
    log = LOG_FOLDER.rstrip("/")
    if store.uri.rstrip("/").rpartition("/")[2] == log:
        return f"Give the table's folder, which holds {log}, not {log} itself."
    folders = store.folders()
    tables = [
        folder.rstrip("/")
        for folder in folders[:_LOOKED_AT]
        if LOG_FOLDER in (below.removeprefix(folder) for below in store.folders(folder))
    ]
    if tables:
        named = ", ".join(repr(name) for name in tables[:_NAMED])
        more = " and others" if len(tables) > _NAMED else ""
        return f"There are tables below it: {named}{more}; `deltasql import --lake` takes them all."
    alike = [folder.rstrip("/") for folder in folders if folder.lower().strip("_/") == "delta_log"]
    if alike:
        told = "is empty" if alike[0] == log else f"is not the {log} that Delta's readers look for"
        return f"The folder {alike[0]!r} {told}."
    return f"It holds no folder {log}; check how the location is spelled."
