"""The port: what deltasql asks of an object store, and nothing more.

A store is rooted at one table's location. Keys are relative to that root and raw: already
percent-decoded, separated by `/`. Every failure is one of our StorageError kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO, Protocol, runtime_checkable


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
