"""The version that a history without its beginning stands on: told by a checkpoint."""

from __future__ import annotations

from typing import Any

from deltasql.errors import MalformedActionError
from deltasql.imports.load.window import (
    ADD_SCHEMA,
    DOMAIN_SCHEMA,
    EVENT_SCHEMA,
    REMOVE_SCHEMA,
    TXN_SCHEMA,
    VERSION_SCHEMA,
    VersionWindow,
)
from deltasql.imports.plan.commit_files import CommitFile
from deltasql.imports.plan.import_plan import ImportPlan
from deltasql.imports.read.parse import check_change, fetch_in_order, table_of, version_row
from deltasql.log.checkpoint_reader import read_head
from deltasql.protocol.actions import DomainMetadata, Metadata, Protocol, Txn
from deltasql.protocol.codec import CommitParts, decode_parts
from deltasql.storage.port import ObjectStore


def ground_window(
    plan: ImportPlan, store: ObjectStore, own: tuple[Any, ...], *, lenient: bool
) -> VersionWindow:
    """Return the plan's first version with everything of its state but the files.

    `own` is what `ground_row` gives.

    Raises:
        MalformedActionError: the checkpoint tells no protocol or no metadata.
        UnsupportedFeatureError: names the features.
    """
    version = plan.first
    state = read_head(store, plan.base_parts)
    changes = [a for a in state if isinstance(a, Metadata | Protocol)]
    for kind in (Protocol, Metadata):
        found = [change for change in changes if isinstance(change, kind)]
        if len(found) != 1:
            raise MalformedActionError(
                f"The checkpoint of version {version} at {store.uri} has {len(found)} actions "
                f"{kind.kind} instead of one.",
                version=version,
            )
        check_change(found[0], version, store.uri, lenient=lenient)
    txns = [(version, a.app_id, a.version, a.last_updated) for a in state if isinstance(a, Txn)]
    domains = [
        (version, a.domain, a.configuration, a.removed)
        for a in state
        if isinstance(a, DomainMetadata)
    ]
    return VersionWindow(
        version,
        version,
        table_of([own], VERSION_SCHEMA),
        ADD_SCHEMA.empty_table(),
        REMOVE_SCHEMA.empty_table(),
        table_of(txns, TXN_SCHEMA),
        table_of(domains, DOMAIN_SCHEMA),
        EVENT_SCHEMA.empty_table(),
        tuple((version, change) for change in changes),
    )


def ground_row(plan: ImportPlan, store: ObjectStore, *, lenient: bool) -> tuple[Any, ...]:
    """Return the first version's own row; a commit file that is gone leaves one without bytes.

    Raises:
        SourceChangedError: the commit is gone, or another than was listed.
        MalformedActionError: it cannot be understood, which no other checkpoint would mend.
    """
    file = plan.commits.find(plan.first)
    if file is None:
        assert plan.base is not None  # noqa: S101 (only a checkpoint stands for a commit)
        modified = store.head(plan.base_parts[0].key).modified_ms
        return version_row(CommitFile(plan.first, 0, modified), b"", CommitParts([], [], []))
    ((file, payload),) = fetch_in_order(store, [file])
    parts = decode_parts(payload, version=file.version, lenient=lenient, schemaless=True)
    return version_row(file, payload, parts)
