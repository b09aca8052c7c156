"""Adopt commits: what a log holds above SQL's newest version becomes SQL's, byte for byte.

The versions come by the same rows as an import's. A window of many versions that cannot be taken
as a whole is taken version by version, so that all before the fault are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deltasql.catalog.bulk_rows import VersionWindow
from deltasql.catalog.importing import Importing
from deltasql.catalog.rows import TableRow
from deltasql.errors import (
    BadArgumentError,
    MalformedActionError,
    UnsupportedFeatureError,
    VacuumedError,
)
from deltasql.importer.commit_files import CommitFile, CommitFiles
from deltasql.importer.listing import newer_commits
from deltasql.importer.parse import read_window
from deltasql.importer.tasks import cut_tasks
from deltasql.protocol.actions import Metadata
from deltasql.protocol.files import commit_key
from deltasql.storage.port import ObjectStore

# What a window of many versions may be refused for, and most of its versions are not.
_ONE_BY_ONE = (MalformedActionError, UnsupportedFeatureError, VacuumedError, BadArgumentError)


@dataclass(frozen=True, slots=True)
class LogAdopter:
    """Adopts commits into tables of one catalog that take commits; see `BulkLoad.adopt`."""

    importing: Importing
    now_ms: Callable[[], int]

    def adopt(self, row: TableRow, store: ObjectStore, version: int) -> None:
        """Adopt one version, the next one of the table."""
        info = store.head(commit_key(version))
        file = CommitFile(version, info.size, info.modified_ms)
        self._append(row, read_window(store, [file], lenient=True))

    def adopt_newer(self, row: TableRow, store: ObjectStore) -> int:
        """Adopt what follows the table's newest version without a gap; return how many versions."""
        files = CommitFiles.of(newer_commits(store, row.current_version))
        for task in cut_tasks(files):
            if not self._append_whole(row, store, task.files):
                for file in task.files:
                    self._append(row, read_window(store, [file], lenient=True))
        return len(files)

    def _append_whole(self, row: TableRow, store: ObjectStore, files: CommitFiles) -> bool:
        """Adopt versions in one transaction; False if that must be done one by one."""
        try:
            window = read_window(store, files, lenient=True)
            if len(files) > 1 and any(isinstance(one, Metadata) for _, one in window.changes):
                return False
            self._append(row, window)
        except _ONE_BY_ONE:
            if len(files) == 1:
                raise
            return False
        return True

    def _append(self, row: TableRow, window: VersionWindow) -> None:
        self.importing.adopt(row.table_id, window, now=self.now_ms())
