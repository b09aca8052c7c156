"""A store that fails on a script: wrap any store, and see what the code above makes of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

from deltasql.errors import (
    AccessDeniedError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
)
from deltasql.storage.port import ObjectInfo, ObjectStore
from deltasql.storage.range_reader import open_ranges
from deltasql.testing.faults import Fault, Kind, RandomFaults, Script, ScriptedFaults

__all__ = ["Call", "Fault", "FaultyStore", "Kind", "RandomFaults", "ScriptedFaults"]

_T = TypeVar("_T")
_BEFORE = frozenset({Kind.FAIL_BEFORE, Kind.DENIED, Kind.EXISTS_WITHOUT_EFFECT})
_AFTER = frozenset({Kind.FAIL_AFTER, Kind.EXISTS_THOUGH_OURS})


@dataclass(frozen=True, slots=True)
class Call:
    """One call that the store received, and what was done to it."""

    operation: str
    key: str
    kind: Kind | None


class FaultyStore:
    """`inner` with faults; `calls` tells what happened, in order."""

    def __init__(
        self,
        inner: ObjectStore,
        script: Script | Iterable[Fault] = (),
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._inner = inner
        self._script: Script = script if isinstance(script, Script) else ScriptedFaults(script)
        self._sleep = sleep
        self._lock = threading.Lock()
        self._before: dict[str, bytes | None] = {}
        self._written: list[str] = []
        self.calls: list[Call] = []

    def __repr__(self) -> str:
        return f"FaultyStore({self._inner!r})"

    @property
    def uri(self) -> str:
        """The inner store's root."""
        return self._inner.uri

    def put_if_absent(self, key: str, data: bytes) -> str | None:
        """Create the object, unless the script has other plans."""
        return self._change("put_if_absent", key, lambda: self._inner.put_if_absent(key, data))

    def put(self, key: str, data: bytes) -> None:
        """Create or replace the object, unless the script has other plans."""
        self._change("put", key, lambda: self._inner.put(key, data))

    def get(self, key: str) -> bytes:
        """Return the object, perhaps cut or old."""
        fault = self._enter("get", key)
        data = self._old(key) if _is(fault, Kind.STALE_READ) else self._inner.get(key)
        return _cut(data, fault)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return a part of the object, perhaps cut or old."""
        fault = self._enter("get_range", key)
        if _is(fault, Kind.STALE_READ):
            return self._old(key)[start : start + length]
        return _cut(self._inner.get_range(key, start, length), fault)

    def head(self, key: str) -> ObjectInfo:
        """Return what the store knows, perhaps no longer true."""
        fault = self._enter("head", key)
        if not _is(fault, Kind.STALE_READ):
            return self._inner.head(key)
        return ObjectInfo(key, len(self._old(key)), 0)

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects, perhaps without the newest."""
        fault = self._enter("list_from", prefix)
        hidden: frozenset[str] = frozenset()
        if fault is not None and fault.kind is Kind.STALE_LIST:
            with self._lock:
                hidden = frozenset(self._written[-fault.newest :])
        listed = list(self._inner.list_from(prefix, start_after))
        return (info for info in listed if info.key not in hidden)

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        """Return the folders, unless the script has other plans."""
        self._enter("folders", prefix)
        return self._inner.folders(prefix)

    def delete(self, key: str) -> None:
        """Remove the object, unless the script has other plans."""
        self._change("delete", key, lambda: self._inner.delete(key))

    def open_input(self, key: str) -> BinaryIO:
        """Open the object; every read of a part may fail on its own."""
        self._enter("open_input", key)
        size = self._inner.head(key).size
        return open_ranges(lambda start, length: self.get_range(key, start, length), size)

    @contextmanager
    def open_output(self, key: str) -> Iterator[BinaryIO]:
        """Write an object; the fault strikes when it is to be completed."""
        fault = self._pick("open_output", key)
        self._remember(key)
        with self._inner.open_output(key) as file:
            yield file
            self._strike(fault, "open_output", key, _BEFORE)
        self._note(key)
        self._strike(fault, "open_output", key, _AFTER)

    def local_path(self, key: str) -> str | None:
        """Return None: a mapped file would be read past the script."""
        del key
        return None

    def sweep_leftovers(self, prefix: str, older_than_s: float, now: float) -> tuple[str, ...]:
        """Sweep the inner store."""
        return self._inner.sweep_leftovers(prefix, older_than_s, now)

    def close(self) -> None:
        """Close the inner store."""
        self._inner.close()

    def _change(self, operation: str, key: str, call: Callable[[], _T]) -> _T:
        fault = self._enter(operation, key)
        self._remember(key)
        answer = call()
        self._note(key)
        self._strike(fault, operation, key, _AFTER)
        return answer

    def _enter(self, operation: str, key: str) -> Fault | None:
        fault = self._pick(operation, key)
        self._strike(fault, operation, key, _BEFORE)
        return fault

    def _pick(self, operation: str, key: str) -> Fault | None:
        fault = self._script.pick(operation, key)
        with self._lock:
            self.calls.append(Call(operation, key, fault.kind if fault else None))
        if fault is not None and fault.kind is Kind.DELAY:
            self._sleep(fault.seconds)
        return fault

    @staticmethod
    def _strike(fault: Fault | None, operation: str, key: str, when: frozenset[Kind]) -> None:
        if fault is not None and fault.kind in when:
            raise _error(fault.kind, operation, key)

    def _remember(self, key: str) -> None:
        """Keep what the object is now: a stale read after the next write returns it."""
        try:
            before: bytes | None = self._inner.get(key)
        except StorageError:
            before = None
        with self._lock:
            self._before[key] = before

    def _note(self, key: str) -> None:
        with self._lock:
            self._written.append(key)

    def _old(self, key: str) -> bytes:
        with self._lock:
            known = key in self._before
            data = self._before.get(key)
        if not known:
            return self._inner.get(key)
        if data is None:
            raise ObjectNotFoundError(f"There is no object {key!r}.", key=key)
        return data


def _is(fault: Fault | None, kind: Kind) -> bool:
    return fault is not None and fault.kind is kind


def _cut(data: bytes, fault: Fault | None) -> bytes:
    return data[: fault.keep] if fault is not None and fault.kind is Kind.TRUNCATE else data


def _error(kind: Kind, operation: str, key: str) -> StorageError:
    if kind is Kind.DENIED:
        return AccessDeniedError(f"The script denies {operation} of {key!r}.", key=key)
    if kind in {Kind.EXISTS_THOUGH_OURS, Kind.EXISTS_WITHOUT_EFFECT}:
        return ObjectExistsError(f"The script says that {key!r} exists.", key=key)
    return StorageUnavailableError(f"The script loses {operation} of {key!r}.", key=key)
