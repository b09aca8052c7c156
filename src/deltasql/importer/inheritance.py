"""What others have left in a log that is taken over: noted, so that it is known and watched.

Their checkpoints, sidecars and checksums stay as they are. Without a note `verify` would call them
strangers, and nobody would notice when one of them is damaged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from deltasql.catalog.database import Database
from deltasql.catalog.log_files import INHERITED, LogFiles, RecordedFile
from deltasql.catalog.rows import TableRow
from deltasql.crash import crash_point
from deltasql.log.owner import OWNER_KEY
from deltasql.log.segment import object_digest
from deltasql.protocol.files import (
    LAST_CHECKPOINT,
    LAST_CHECKPOINT_CHECKSUM,
    LOG_FOLDER,
    LogFile,
    LogFileKind,
)
from deltasql.storage.port import ObjectInfo, ObjectStore

# We write or remove these ourselves.
_CHANGING = {OWNER_KEY, LAST_CHECKPOINT, LAST_CHECKPOINT_CHECKSUM}
_OURS = f"{LOG_FOLDER}_deltasql_"
# A local file on its way, by delta-rs: it becomes the commit, or goes.
_STAGED = re.compile(r"#\d+$")
_WORKERS = 8


def inherit(database: Database, row: TableRow, store: ObjectStore) -> int:
    """Note everything in the log that is no commit of the table; return how much was new."""
    log_files = LogFiles(database)
    known = {file.key for file in log_files.all(row.table_id)}
    listed = [info for info in _strangers(store, row) if info.key not in known]
    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="deltasql-inherit") as pool:
        digests = list(pool.map(lambda info: object_digest(store, info.key), listed))
    with database.write() as work:
        for info, digest in zip(listed, digests, strict=True):
            if digest is not None:  # its writer has removed it meanwhile
                file = RecordedFile(
                    info.key,
                    _version(info, row),
                    INHERITED,
                    info.size,
                    digest,
                    e_tag=info.e_tag,
                )
                log_files.record(work, row.table_id, file)
        crash_point("before-inherited")
    return len(listed)


def _strangers(store: ObjectStore, row: TableRow) -> Iterator[ObjectInfo]:
    for info in store.list_from(LOG_FOLDER):
        if info.key in _CHANGING or info.key.startswith(_OURS) or _STAGED.search(info.key):
            continue
        file = LogFile.parse(info.key.removeprefix(LOG_FOLDER))
        is_commit = file is not None and file.kind is LogFileKind.COMMIT
        if not (is_commit and file is not None and file.version >= row.log_floor):
            yield info


def _version(info: ObjectInfo, row: TableRow) -> int:
    """A file whose name tells no version may belong to any up to the newest."""
    file = LogFile.parse(info.key.removeprefix(LOG_FOLDER))
    return row.current_version if file is None else file.last_version or file.version
