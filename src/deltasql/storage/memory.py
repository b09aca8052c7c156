"""A store in memory, for tests and examples: the same promises, gone with the process."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, cast

from deltasql.clock import now_ms
from deltasql.errors import ObjectExistsError, ObjectNotFoundError
from deltasql.storage.paths import bytewise, check_folder, check_key, check_prefix, check_range
from deltasql.storage.port import ObjectInfo


@dataclass(frozen=True, slots=True)
class _Object:
    data: bytes
    modified_ms: int
    number: int


@dataclass(slots=True)
class Bucket:
    """The objects that several MemoryStores may look at, each below its own prefix."""

    objects: dict[str, _Object] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    writes: int = 0


_buckets: dict[str, Bucket] = {}
_buckets_lock = threading.Lock()


def shared_bucket(name: str) -> Bucket:
    """Return this process's bucket of that name, so that a memory: URI can be opened twice."""
    with _buckets_lock:
        return _buckets.setdefault(name, Bucket())


class MemoryStore:
    """Objects in a dictionary; safe to use from many threads."""

    def __init__(
        self,
        uri: str = "memory://",
        *,
        bucket: Bucket | None = None,
        prefix: str = "",
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._uri = uri
        self._bucket = bucket or Bucket()
        self._prefix = f"{prefix}/" if prefix else ""
        self._clock = clock

    def __repr__(self) -> str:
        return f"MemoryStore({self._uri!r})"

    @property
    def uri(self) -> str:
        """The root's URI."""
        return self._uri

    def put_if_absent(self, key: str, data: bytes) -> str | None:
        """Create the object only where there is none."""
        return _info(key, self._store(key, data, replace=False)).e_tag

    def put(self, key: str, data: bytes) -> None:
        """Create or replace the object."""
        self._store(key, data, replace=True)

    def get(self, key: str) -> bytes:
        """Return the whole object."""
        return self._find(key).data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start`."""
        check_range(key, start, length)
        return self._find(key).data[start : start + length]

    def head(self, key: str) -> ObjectInfo:
        """Return size and time of the object."""
        return _info(key, self._find(key))

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects below the prefix in bytewise order of their keys."""
        full = self._prefix + check_prefix(prefix)
        with self._bucket.lock:
            found = [(k, o) for k, o in self._bucket.objects.items() if k.startswith(full)]
        cut = len(self._prefix)
        infos = (_info(key[cut:], stored) for key, stored in found)
        after = bytewise(start_after)
        for info in sorted(infos, key=lambda info: bytewise(info.key)):
            if bytewise(info.key) > after:
                yield info

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        """Return the folders directly below one, by the keys that lie in them."""
        full = self._prefix + check_folder(prefix)
        with self._bucket.lock:
            below = [key[len(full) :] for key in self._bucket.objects if key.startswith(full)]
        names = {name for name, slash, _ in (rest.partition("/") for rest in below) if slash}
        return tuple(sorted((f"{prefix}{name}/" for name in names), key=bytewise))

    def delete(self, key: str) -> None:
        """Remove the object; silent where there is none."""
        with self._bucket.lock:
            self._bucket.objects.pop(self._prefix + check_key(key), None)

    def open_input(self, key: str) -> BinaryIO:
        """Open the object for reading."""
        return io.BytesIO(self.get(key))

    @contextmanager
    def open_output(self, key: str) -> Iterator[BinaryIO]:
        """Write an object piece by piece; it appears on clean exit."""
        check_key(key)
        pending = PendingBytes()
        yield cast("BinaryIO", pending)
        self.put(key, pending.whole())

    def local_path(self, key: str) -> str | None:
        """Return None: nothing here is a file."""
        check_key(key)
        return None

    def sweep_leftovers(self, prefix: str, older_than_s: float, now: float) -> tuple[str, ...]:
        """Do nothing: an unfinished object is not to be seen here."""
        del prefix, older_than_s, now
        return ()

    def close(self) -> None:
        """Nothing is held open."""

    def _store(self, key: str, data: bytes, *, replace: bool) -> _Object:
        full = self._prefix + check_key(key)
        with self._bucket.lock:
            if not replace and full in self._bucket.objects:
                raise ObjectExistsError(f"The object {key!r} is there already.", key=key)
            self._bucket.writes += 1
            stored = _Object(bytes(data), self._clock(), self._bucket.writes)
            self._bucket.objects[full] = stored
        return stored

    def _find(self, key: str) -> _Object:
        full = self._prefix + check_key(key)
        with self._bucket.lock:
            stored = self._bucket.objects.get(full)
        if stored is None:
            raise ObjectNotFoundError(f"There is no object {key!r}.", key=key)
        return stored


class PendingBytes(io.BytesIO):
    """Bytes that stay readable after whoever wrote them closed the file."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: bytes | None = None

    def close(self) -> None:
        """Close the file; `whole` goes on to work."""
        if self._kept is None:
            self._kept = self.getvalue()
        super().close()

    def whole(self) -> bytes:
        """Return everything that was written."""
        return self.getvalue() if self._kept is None else self._kept


def _info(key: str, stored: _Object) -> ObjectInfo:
    return ObjectInfo(key, len(stored.data), stored.modified_ms, f"{stored.number:x}")
