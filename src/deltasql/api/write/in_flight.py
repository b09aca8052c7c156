"""Writes that are open: noted in SQL, so that vacuum spares their files; checks that files are
there.

A file that is written and not yet committed looks like a leftover. Vacuum never takes what is
younger than an hour; a write that is older than minutes is noted here, and the note is renewed as
long as the process lives.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from weakref import WeakSet

from deltasql.database.port import Database
from deltasql.errors import CorruptDataError, DeltaSqlError, ObjectNotFoundError
from deltasql.forks import start_afresh_after_fork
from deltasql.metastore.leases import write_purpose
from deltasql.protocol.actions import Action, Add
from deltasql.storage.paths import RelativeKey, resolve_path
from deltasql.storage.port import ObjectStore

_logger = logging.getLogger(__name__)

NOTED_AFTER_S = 600.0
_EXPIRES_MS = 3 * 3600 * 1000

_THREADS = 16


@dataclass(slots=True)
class _Write:
    table_id: str
    began_ms: int
    began_s: float


@dataclass(slots=True, eq=False, weakref_slot=True)
class InFlightWrites:
    """The writes of one session; safe to use from many threads."""

    database: Database
    holder: str
    new_id: Callable[[], str]
    now_ms: Callable[[], int]
    monotonic: Callable[[], float] = time.monotonic
    _writes: dict[str, _Write] = field(default_factory=dict)
    _noted: dict[str, str] = field(default_factory=dict)
    _forgotten: deque[str] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        start_afresh_after_fork(self)

    def start_afresh(self) -> None:
        """Leave the parent's writes to the parent."""
        self._writes, self._noted, self._forgotten = {}, {}, deque()
        self._lock = threading.Lock()

    def begin(self, table_id: str, began_ms: int | None = None) -> str:
        """Begin a write and return its id; costs nothing until it takes long.

        `began_ms` is when another process began it: nobody has renewed a note since.
        """
        work_id = self.new_id()
        began = self.now_ms() if began_ms is None else began_ms
        with self._lock:
            self._writes[work_id] = _Write(table_id, began, self.monotonic())
        _ticker.watch(self)
        return work_id

    def forget(self, work_id: str) -> None:
        """End a write whose caller is gone, at the next look.

        Takes no lock and asks nothing of SQL: the garbage collector calls it anywhere.
        """
        self._forgotten.append(work_id)

    def end(self, work_id: str) -> None:
        """End a write: it is committed, or given up; nothing here can fail it.

        A note that cannot be taken away expires by itself: vacuum only waits longer.
        """
        with self._lock:
            self._writes.pop(work_id, None)
            table_id = self._noted.pop(work_id, None)
        if table_id is not None:
            with suppress(DeltaSqlError), self.database.write(durable=False) as tx:
                tx.execute("end_open_work", table_id=table_id, purpose=write_purpose(work_id))

    def settle(self, work_id: str) -> bool:
        """Before its commit: tell whether a write took long; then it is noted from now on.

        Its files must be looked for after this: the note may be new, or may have expired.
        """
        write = self._writes[work_id]
        slow = self.monotonic() - write.began_s >= NOTED_AFTER_S
        # a machine that slept counts by the wall clock only
        slow = slow or self.now_ms() - write.began_ms >= NOTED_AFTER_S * 1000
        if slow:
            self._note(work_id, write)
        return slow

    def note_slow(self) -> None:
        """Note every write that takes long, and renew the notes."""
        self._end_forgotten()
        with self._lock:
            slow = {
                work_id: write
                for work_id, write in self._writes.items()
                if self.monotonic() - write.began_s >= NOTED_AFTER_S
            }
        for work_id, write in slow.items():
            self._note(work_id, write)

    def close(self) -> None:
        """Renew nothing any more."""
        _ticker.leave(self)

    @property
    def is_idle(self) -> bool:
        """Tell whether no write is under way."""
        return not self._writes

    def _end_forgotten(self) -> None:
        with suppress(IndexError):
            while True:
                self.end(self._forgotten.popleft())

    def _note(self, work_id: str, write: _Write) -> None:
        with self.database.write() as tx:
            tx.execute(
                "note_open_work",
                table_id=write.table_id,
                purpose=write_purpose(work_id),
                holder=self.holder,
                started_at=write.began_ms,
                expires_at=tx.now_ms() + _EXPIRES_MS,
            )
        with self._lock:
            is_over = work_id not in self._writes
            self._noted[work_id] = write.table_id
        if is_over:
            self.end(work_id)

    def tick(self) -> None:
        """Note what takes long; an error is logged, since nobody waits for it."""
        try:
            self.note_slow()
        except DeltaSqlError as error:
            # the commit notes it once more, and looks whether its files are there
            _logger.warning("A long write could not be noted: %s", error.message)


class _Ticker:
    """One thread for all sessions of a process; it keeps no session alive."""

    def __init__(self) -> None:
        self.start_afresh()
        start_afresh_after_fork(self)

    def start_afresh(self) -> None:
        """Watch nobody; a forked child has its own thread and lock."""
        self._sessions: WeakSet[InFlightWrites] = WeakSet()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def watch(self, session: InFlightWrites) -> None:
        with self._lock:
            self._sessions.add(session)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, name="deltasql-in-flight", daemon=True
                )
                self._thread.start()

    def leave(self, session: InFlightWrites) -> None:
        with self._lock:
            self._sessions.discard(session)

    def _run(self) -> None:
        while True:
            time.sleep(NOTED_AFTER_S)
            with self._lock:
                sessions = list(self._sessions)
            for session in sessions:
                session.tick()
            with self._lock:
                if all(session.is_idle for session in self._sessions):
                    self._thread = None
                    return
            del sessions, session  # asleep, it must hold none


_ticker = _Ticker()


def require_present(actions: Iterable[Action], store: ObjectStore) -> None:
    """Refuse to commit files that were deleted from the store.

    Raises:
        CorruptDataError: names the first file that is gone, and how many are.
    """
    _require_present([action for action in actions if isinstance(action, Add)], store)


def require_sizes(adds: Sequence[Add], store: ObjectStore) -> None:
    """Refuse to commit new files that are gone, or whose size is not the one that is recorded.

    Raises:
        CorruptDataError: names the first of them; Spark would miss rows of a file that is larger.
    """
    sizes = _require_present(adds, store)
    for add, size in zip(adds, sizes, strict=True):
        if size != add.size:
            raise CorruptDataError(
                f"The new file {add.path} has {size} bytes on the store, but {add.size} were "
                "written.",
                hint="Nothing was committed. Write the rows again.",
            )


def _require_present(adds: Sequence[Add], store: ObjectStore) -> list[int]:
    """Return the sizes on the store; a file outside of the table counts as it is recorded."""
    with ThreadPoolExecutor(min(_THREADS, max(len(adds), 1))) as pool:
        sizes = list(pool.map(partial(_stored_size, store), adds))
    gone = [add.path for add, size in zip(adds, sizes, strict=True) if size is None]
    if gone:
        raise CorruptDataError(
            f"{len(gone)} data files that the commit needs are gone, among them {gone[0]}.",
            hint="Restore a newer version, or write the rows again.",
        )
    return [size for size in sizes if size is not None]


def _stored_size(store: ObjectStore, add: Add) -> int | None:
    place = resolve_path(add.path)
    if not isinstance(place, RelativeKey):
        return add.size
    try:
        return store.head(place.key).size
    except ObjectNotFoundError:
        return None
