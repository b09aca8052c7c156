"""What the log said while it was read: the other side of the comparison with SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

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
class Witness:
    """Follows the rows of a log as tasks bring them; knows nothing of how they are folded."""

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    txns: dict[str, int] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)
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
        self.protocol, self.metadata = snapshot.protocol, snapshot.metadata
        self.txns = {txn.app_id: txn.version for txn in snapshot.txns()}
        self.domains = {one.domain: one.configuration for one in snapshot.domains()}
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
        for _, change in window.changes:
            if isinstance(change, Protocol):
                self.protocol = change
            else:
                self.metadata = change
        for row in window.txns.to_pylist():
            self.txns[row["app_id"]] = row["txn_version"]
        self._take_domains(window.domains.to_pylist())

    def digests(self, since: int) -> pa.Table:
        """Return the digests of the versions from one on, in order."""
        heard = pa.concat_tables([_DIGESTS.empty_table(), *self._digests])
        return heard.filter(pc.field("version") >= since).sort_by("version")

    def events(self) -> Events:
        """Return all events, sorted."""
        return Events(self._events)

    def _take_domains(self, rows: Sequence[dict[str, object]]) -> None:
        for row in rows:
            if row["removed"]:
                self.domains.pop(str(row["domain"]), None)
            else:
                self.domains[str(row["domain"])] = str(row["configuration"])
