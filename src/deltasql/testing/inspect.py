"""inspect(catalog): what lies below the public face, for tests; none of it is stable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltasql.api.catalog import Catalog
    from deltasql.api.session import Mirroring, Session
    from deltasql.api.table import Table
    from deltasql.api.write.in_flight import InFlightWrites
    from deltasql.database.port import Database
    from deltasql.metastore.registry import SqlCatalog
    from deltasql.mirror.after_commit import InlineMirror
    from deltasql.mirror.checkpoints.write import Checkpointer
    from deltasql.mirror.engine import MirrorEngine
    from deltasql.mirror.queue import MirrorStatusTracker
    from deltasql.runtime.connection import Connection
    from deltasql.settings import Settings


@dataclass(frozen=True, slots=True)
class Inspection:
    """The parts of one open catalog."""

    session: Session

    @property
    def connection(self) -> Connection:
        """The open catalog: stores, clock, leases, ownership."""
        return self.session.connection

    @property
    def settings(self) -> Settings:
        """The settings it was opened with."""
        return self.connection.settings

    @property
    def metastore(self) -> SqlCatalog:
        """Tables, versions and snapshots in SQL."""
        return self.connection.metastore

    @property
    def database(self) -> Database:
        """The database, which runs named queries and SQL."""
        return self.metastore.database

    @property
    def in_flight(self) -> InFlightWrites:
        """Writes that have begun and not ended."""
        return self.session.in_flight

    @property
    def mirroring(self) -> Mirroring:
        """What keeps the logs up with SQL in this process."""
        return self.session.mirroring

    @property
    def engine(self) -> MirrorEngine:
        """What puts versions into a log."""
        return self.mirroring.engine

    @property
    def queue(self) -> MirrorStatusTracker:
        """The rows of `dl_mirror_status`."""
        return self.engine.tracker

    @property
    def inline(self) -> InlineMirror:
        """The mirror right after a commit."""
        return self.mirroring.inline

    @property
    def checkpointer(self) -> Checkpointer:
        """What writes checkpoints."""
        return self.mirroring.checkpointer


def inspect(opened: Catalog | Table) -> Inspection:
    """Return the parts of an open catalog, or of the one that a table belongs to."""
    return Inspection(opened._session)  # noqa: SLF001 (the one door below the face)
