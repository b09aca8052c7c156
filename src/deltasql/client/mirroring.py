"""What keeps the logs up with SQL in this process: the mirror after commits, checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field

from deltasql.catalog.commit_request import Committed
from deltasql.catalog.mirror_status import MirrorStatusTracker
from deltasql.catalog.verifications import Verifications
from deltasql.mirror.background import BackgroundCheckpoints
from deltasql.mirror.checkpoints import Checkpointer
from deltasql.mirror.engine import MirrorEngine, MirrorResult
from deltasql.mirror.hinter import CommitHinter
from deltasql.mirror.inline import InlineMirror
from deltasql.mirror.mode import mirror_mode
from deltasql.mirror.retries import RetryPolicy
from deltasql.runtime.connection import Connection

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Mirroring:
    """The mirror of one open catalog, built by its first commit; reads need none of it."""

    connection: Connection
    engine: MirrorEngine = field(init=False)
    checkpointer: Checkpointer = field(init=False)
    checkpoints: BackgroundCheckpoints = field(init=False)
    verifications: Verifications = field(init=False)
    inline: InlineMirror = field(init=False)
    hinter: CommitHinter = field(init=False)

    def __post_init__(self) -> None:
        connection = self.connection
        database, settings = connection.metastore.database, connection.settings.mirror
        self.engine = MirrorEngine(
            connection, MirrorStatusTracker(database), RetryPolicy.of(settings)
        )
        self.checkpointer = Checkpointer(connection)
        self.checkpoints = BackgroundCheckpoints(
            self.checkpointer,
            connection.metastore.table_by_id,
            lambda row: connection.settings_of(row).mirror.checkpoint_interval,
            lambda row: connection.settings_of(row).mirror.checkpoint_codec,
            sink=connection.emit,
        )
        self.verifications = Verifications(database, connection.leases)
        deadline = settings.inline_deadline.total_seconds()
        self.inline = InlineMirror(self.engine, deadline, self.checkpoints.offer)
        self.hinter = CommitHinter(database.tell_commits)

    def follow(self, commits: Sequence[Committed]) -> None:
        """Mirror commits as the settings say, side by side and under one deadline for all.

        Nothing here fails a commit: what cannot be mirrored now is left to a later attempt.
        """
        until = self.inline.monotonic() + self.inline.deadline_s
        for one, started in [(one, self._start(one)) for one in commits]:
            if started is not None:
                with _left_to_later(one):
                    self.inline.wait(started, until)

    def close(self) -> None:
        """End attempts under way; checkpoints that are due are written."""
        self.inline.close()
        self.hinter.close()
        self.checkpoints.close()

    def _start(self, done: Committed) -> Future[MirrorResult] | None:
        with _left_to_later(done):
            mode = mirror_mode(self.connection, done.before)
            if mode == "inline":
                return self.inline.start(done)
            if mode == "worker" and self.connection.metastore.database.dialect.must_tell_commits:
                self.hinter.hint(done.before.table_id)
        return None


@contextmanager
def _left_to_later(done: Committed) -> Iterator[None]:
    """Log whatever the mirror raises: the commit is made and must be reported as such."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 (see above)
        _logger.warning(
            "Version %d of %s is committed; its mirror is left to a later attempt (%s).",
            done.version,
            done.before.full_name,
            getattr(error, "code", type(error).__name__),
        )
