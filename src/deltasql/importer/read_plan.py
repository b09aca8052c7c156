"""Make a plan from a store: list, plan, and believe in a hole only when it is proven.

A listing is made page by page while others write and clean up, so one alone proves no absence.
"""

from __future__ import annotations

from deltasql.errors import (
    LogGapError,
    MalformedActionError,
    ObjectNotFoundError,
    StorageUnavailableError,
)
from deltasql.importer.listing import read_listing
from deltasql.importer.plan import ImportPlan, PlanOptions, plan_listing
from deltasql.protocol.files import commit_key
from deltasql.storage.port import ObjectStore

_LISTINGS = 5


def read_plan(store: ObjectStore, options: PlanOptions | None = None) -> ImportPlan:
    """List a table's log and return what an import of it will read.

    Raises:
        ObjectNotFoundError: there is no log, or nothing in it that counts.
        LogGapError, MalformedActionError: a version is missing or empty.
        VersionNotFoundError: the wanted end cannot be reconstructed.
        StorageUnavailableError: the log changed under every listing.
    """
    want = options or PlanOptions()
    before: object = None
    for _ in range(_LISTINGS):
        try:
            return plan_listing(read_listing(store), want)
        except (LogGapError, MalformedActionError) as error:
            missing = error.context["missing"]
            if missing == before and isinstance(missing, int) and not _is_there(store, missing):
                raise
            before = missing
    raise StorageUnavailableError(
        f"The log at {store.uri} changed under every listing of it.",
        hint="Another program writes or cleans it up now; try again.",
    )


def _is_there(store: ObjectStore, version: int) -> bool:
    try:
        return store.head(commit_key(version)).size > 0
    except ObjectNotFoundError:
        return False
