"""Is the log still this catalog's, and not ahead of SQL? Asked before the first commit.

A restored backup knows fewer versions than the log, a cloned database knows another owner. If they
were asked only by the mirror, the first commit would be acknowledged under a number that the log
gives to another commit.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from dataclasses import dataclass

from deltasql.catalog.catalog import SqlCatalog
from deltasql.catalog.rows import TableRow, TableState
from deltasql.crash import crash_point
from deltasql.errors import OwnershipError, StorageError, TableStateError
from deltasql.events import Sink, TableFenced
from deltasql.mirror.engine import MirrorEngine
from deltasql.protocol.files import commit_key


@dataclass(frozen=True, slots=True)
class OwnLogs:
    """Looks at a table's log once per process, before the first commit to it."""

    catalog: SqlCatalog
    engine: MirrorEngine
    sink: Sink
    deadline_s: float

    def require(self, row: TableRow) -> None:
        """Refuse a first commit to a table whose log is not ours, and fence the table.

        A store that does not answer within the deadline stops no commit: SQL takes commits while
        the log cannot be reached, and the mirror looks again before its first put.

        Raises:
            OwnershipError: the log is another catalog's, or holds versions that SQL lacks.
        """
        if row.state is not TableState.ACTIVE or self.engine.ownership.is_known(row.table_id):
            return
        try:
            with suppress(StorageError, FutureTimeoutError):
                self._look(row)
        except OwnershipError as error:
            if self.catalog.table_by_id(row.table_id).state is not TableState.ACTIVE:
                return  # dropped, detached or fenced since: the commit itself says so
            self._fence(row, error)
            raise

    def _look(self, row: TableRow) -> None:
        if row.location.startswith("file:"):
            self._ensure(row)
            return
        ended: Future[None] = Future()

        def run() -> None:
            try:
                self._ensure(row)
                ended.set_result(None)
            except BaseException as error:  # noqa: BLE001 (raised again where it is waited for)
                ended.set_exception(error)

        try:
            threading.Thread(target=run, name="deltasql-own-log", daemon=True).start()
        except RuntimeError:  # the interpreter ends and starts no thread any more
            run()
        ended.result(timeout=self.deadline_s)

    def _ensure(self, row: TableRow) -> None:
        self.engine.ownership.ensure(row, self.engine.open_store(row))

    def _fence(self, row: TableRow, error: OwnershipError) -> None:
        """Stop the commits of all processes until somebody has looked."""
        active, conflict = TableState.ACTIVE, TableState.CONFLICT
        with suppress(TableStateError):  # it is fenced, dropped or detached by now
            self.catalog.set_state(row.table_id, conflict, expected=[active])
        crash_point("after-commit-fenced")
        version = self.catalog.table_by_id(row.table_id).current_version
        self.sink(
            TableFenced(
                table_id=row.table_id,
                table=row.full_name,
                version=version,
                key=commit_key(version + 1),
                error_code=error.code,
            )
        )
