"""What the log said while it was read: the other side of the comparison with SQL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.catalog.bulk_rows import VersionWindow
from deltasql.catalog.snapshots import Snapshot
from deltasql.importer.tasks import StatePart
from deltasql.parity.events import Events, events_of
from deltasql.parity.file_maps import FILE_COLUMNS
from deltasql.protocol.actions import Metadata, Protocol

_DIGESTS = pa.schema([("version", pa.int64()), ("digest", pa.string())])


@dataclass(slots=True)
class Rules:
    """What is in force at a version: protocol, metadata, transactions and domains."""

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    txns: dict[str, int] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)

    def take(self, window: VersionWindow, through: int) -> None:
        """Take the next versions, up to one."""
        for version, change in window.changes:
            if version > through:
                break
            if isinstance(change, Protocol):
                self.protocol = change
            else:
                self.metadata = change
        for row in _rows_through(window.txns, through):
            self.txns[row["app_id"]] = row["txn_version"]
        for row in _rows_through(window.domains, through):
            if row["removed"]:
                self.domains.pop(str(row["domain"]), None)
            else:
                self.domains[str(row["domain"])] = str(row["configuration"])


@dataclass(slots=True)
class Witness:
    """Follows the rows of a log as tasks bring them; knows nothing of how they are folded.

    `rules` are those of the newest version, `rules_at_oldest` those of `oldest`, where the log is
    read from a version before it.
    """

    oldest: int = -1
    rules: Rules = field(default_factory=Rules)
    rules_at_oldest: Rules = field(default_factory=Rules)
    versions: int = 0
    adds: int = 0
    removes: int = 0
    began_with_book: bool = False
    missed_state: bool = False
    _digests: list[pa.Table] = field(default_factory=list)
    _events: list[pa.Table] = field(default_factory=list)

    def begin_with(self, snapshot: Snapshot) -> None:
        """Begin with a version that SQL has already, and that was compared when it came."""
        self.began_with_book = True
        self.rules = Rules(
            snapshot.protocol,
            snapshot.metadata,
            {txn.app_id: txn.version for txn in snapshot.txns()},
            {one.domain: one.configuration for one in snapshot.domains()},
        )
        for batch in snapshot.stream_files(FILE_COLUMNS):
            self._events.append(events_of(pa.Table.from_batches([batch]), snapshot.version))

    def take_state(self, part: StatePart) -> None:
        """Take a part of the state that a history stands on."""
        self._events.append(part.events)

    def take(self, window: VersionWindow) -> None:
        """Take the next versions."""
        self._events.append(window.events)
        self.versions += window.versions.num_rows
        self.adds += sum(window.versions["adds"].to_pylist())
        self.removes += sum(window.versions["removes"].to_pylist())
        self._digests.append(window.versions.select(_DIGESTS.names).cast(_DIGESTS))
        self.rules.take(window, window.last)
        if window.first <= self.oldest:
            self.rules_at_oldest.take(window, self.oldest)

    def digests(self, since: int) -> pa.Table:
        """Return the digests of the versions from one on, in order."""
        heard = pa.concat_tables([_DIGESTS.empty_table(), *self._digests])
        return heard.filter(pc.field("version") >= since).sort_by("version")

    def events(self) -> Events:
        """Return all events, sorted."""
        return Events(self._events)


def _rows_through(rows: pa.Table, version: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rows.filter(pc.less_equal(rows["version"], version)).to_pylist()
    return found
