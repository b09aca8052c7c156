"""The port: what deltasql asks of an object store, and nothing more.

A store is rooted at one table's location. Keys are relative to that root and raw: already
percent-decoded, separated by `/`. Every failure is one of our StorageError kinds.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast, runtime_checkable

from deltasql.errors import ObjectExistsError, ObjectNotFoundError, StorageUnavailableError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BUFFER_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class ObjectTag:
    """An object's size and entity tag; while both stay the same, so do the bytes."""

    size: int
    e_tag: str


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a store tells about an object without reading it."""

    key: str
    size: int
    modified_ms: int
    e_tag: str | None = None

    @property
    def tag(self) -> ObjectTag | None:
        """Size and entity tag; None where the store gives no entity tag."""
        return ObjectTag(self.size, self.e_tag) if self.e_tag else None


@runtime_checkable
class ObjectStore(Protocol):
    """One table's location on some storage; safe to use from many threads."""

    @property
    def uri(self) -> str:
        """The root's URI, without secrets."""
        ...

    def put_if_absent(self, key: str, data: bytes) -> str | None:
        """Create the object, whole and durable, only where there is none.

        Returns its entity tag, as a listing gives it; None where the store's answer has none.

        Raises:
            ObjectExistsError: the store says that the key exists; after a lost reply the object
                may be ours. `create_once` tells the difference.
            StorageUnavailableError: the outcome is unknown.
        """
        ...

    def put(self, key: str, data: bytes) -> None:
        """Create or replace the object; readers see the old or the new one, never a part."""
        ...

    def get(self, key: str) -> bytes:
        """Return the whole object.

        Raises:
            ObjectNotFoundError: there is none.
        """
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return `length` bytes from `start`; fewer, or none, where the object ends before."""
        ...

    def head(self, key: str) -> ObjectInfo:
        """Return what the store knows of the object.

        Raises:
            ObjectNotFoundError: there is none.
        """
        ...

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose keys start with `prefix` and lie after `start_after`.

        Bytewise order by key, all levels below the prefix. A prefix without objects is empty, not
        an error.
        """
        ...

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        """Return the folders directly below a folder, each ending in `/`, in bytewise order.

        `prefix` is empty or such a folder. Only this one level is looked at; where folders are
        things of their own, empty ones are told too. A folder that is not there has none.
        """
        ...

    def delete(self, key: str) -> None:
        """Remove the object; silent where there is none."""
        ...

    def open_input(self, key: str) -> BinaryIO:
        """Open the object for reading, seekable."""
        ...

    def open_output(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Write an object piece by piece; it appears on clean exit, whole, or not at all."""
        ...

    def local_path(self, key: str) -> str | None:
        """Return the file's path where the object is a local file, so that it can be mapped."""
        ...

    def sweep_leftovers(self, prefix: str, older_than_s: float, now: float) -> tuple[str, ...]:
        """Remove what killed writers left unfinished, where the store shows such a thing.

        Only what is older than `older_than_s` at `now` (seconds); returns the removed keys.
        """
        ...

    def close(self) -> None:
        """Let go of connections; the store is not used afterwards."""
        ...


class Created(Enum):
    """How a create ended."""

    CREATED = "created"
    SAME = "same"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Creation:
    """How a create ended; `tag` where the put itself was answered with one."""

    outcome: Created
    tag: ObjectTag | None = None


def create_once(store: ObjectStore, key: str, data: bytes) -> Created:
    """Put the object where there is none and tell what is there now; see `create_tagged`."""
    return create_tagged(store, key, data).outcome


def create_tagged(store: ObjectStore, key: str, data: bytes) -> Creation:
    """Put the object where there is none and tell what is there now; safe to repeat.

    "Exists" and a lost answer both mean "unknown", so the key is read back: SAME is our bytes, by
    this attempt or an earlier one; DIFFERENT is somebody else's, left untouched.

    Raises:
        StorageUnavailableError: nothing is there and nothing is known; the caller may try again.
    """
    try:
        e_tag = store.put_if_absent(key, data)
    except (ObjectExistsError, StorageUnavailableError) as error:
        return Creation(_read_back(store, key, data, error))
    return Creation(Created.CREATED, ObjectTag(len(data), e_tag) if e_tag else None)


def _read_back(
    store: ObjectStore, key: str, data: bytes, error: ObjectExistsError | StorageUnavailableError
) -> Created:
    try:
        found = store.get(key)
    except ObjectNotFoundError:
        if isinstance(error, StorageUnavailableError):
            raise error from None
        # a 409 stores nothing and is told as "exists" all the same
        raise StorageUnavailableError(
            f"The store says that {key!r} exists, but it is not there.", key=key
        ) from error
    if found == data:
        return Created.SAME
    if data.startswith(found):
        # a reply that was cut is no other object; if the object itself is cut, this goes on
        raise StorageUnavailableError(
            f"Only the first {len(found)} of {len(data)} bytes of {key!r} came back.", key=key
        )
    return Created.DIFFERENT


class _RangeReader(io.RawIOBase):
    """Reads by ranges; the buffer above it keeps small reads from becoming requests."""

    def __init__(self, read_range: Callable[[int, int], bytes], size: int) -> None:
        super().__init__()
        self._read_range = read_range
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError("a file has no position before its start")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), self._size - self._at)
        if wanted <= 0:
            return 0
        data = self._read_range(self._at, wanted)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


def open_ranges(read_range: Callable[[int, int], bytes], size: int) -> BinaryIO:
    """Return a buffered, seekable reader of `size` bytes over `read_range(start, length)`."""
    raw = _RangeReader(read_range, size)
    return cast("BinaryIO", io.BufferedReader(raw, buffer_size=_BUFFER_BYTES))
