"""What an import tells while it runs: values for whoever shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from deltasql.catalog.bulk_rows import VersionWindow


@dataclass(frozen=True, slots=True)
class LoadCounts:
    """What was written to the book."""

    versions: int = 0
    actions: int = 0
    adds: int = 0
    removes: int = 0
    metadata: int = 0
    protocols: int = 0
    txns: int = 0
    domains: int = 0
    state_files: int = 0
    bytes: int = 0

    def plus(self, window: VersionWindow) -> LoadCounts:
        """Return the counts with those of one more window."""
        rows = window.versions
        kinds = [change.kind for _, change in window.changes]
        return LoadCounts(
            self.versions + rows.num_rows,
            self.actions + _sum(rows, "actions"),
            self.adds + _sum(rows, "adds"),
            self.removes + _sum(rows, "removes"),
            self.metadata + kinds.count("metaData"),
            self.protocols + kinds.count("protocol"),
            self.txns + window.txns.num_rows,
            self.domains + window.domains.num_rows,
            self.state_files,
            self.bytes + _sum(rows, "payload_bytes"),
        )

    def plus_state(self, files: int) -> LoadCounts:
        """Return the counts with so many more files of a checkpoint."""
        return replace(self, state_files=self.state_files + files)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an import is: `version` of `head`, and what it is doing."""

    step: str
    version: int
    first: int
    head: int
    counts: LoadCounts


Observer: TypeAlias = Callable[[Progress], None]


def _sum(rows: object, name: str) -> int:
    import pyarrow.compute as pc  # noqa: PLC0415 (only an import that runs counts)

    return pc.sum(rows[name]).as_py() or 0  # type: ignore[index]
