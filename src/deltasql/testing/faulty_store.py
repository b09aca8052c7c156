"""A store that fails on a script or at random: wrap any store, and see what the code above makes
of it.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import BinaryIO, Protocol, TypeVar, runtime_checkable

from deltasql.errors import (
    AccessDeniedError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
)
from deltasql.storage.port import ObjectInfo, ObjectStore, open_ranges

OPERATIONS = frozenset(
    {
        "put_if_absent",
        "put",
        "get",
        "get_range",
        "head",
        "list_from",
        "folders",
        "delete",
        "open_input",
        "open_output",
    }
)
_WRITES = frozenset({"put_if_absent", "put", "open_output"})
_READS = frozenset({"get", "get_range"})

_T = TypeVar("_T")


class Kind(Enum):
    """What goes wrong."""

    FAIL_BEFORE = "fails before it has an effect"
    FAIL_AFTER = "takes effect, but the reply is lost"
    EXISTS_THOUGH_OURS = "takes effect, yet the store says that it existed"
    EXISTS_WITHOUT_EFFECT = "has no effect, yet the store says that it exists (a 409)"
    DENIED = "is refused"
    DELAY = "comes late"
    TRUNCATE = "reads only the first bytes"
    STALE_READ = "sees the object as it was before the last write"
    STALE_LIST = "does not list the newest writes"


# where a kind can strike; those not named strike everywhere
_ONLY: dict[Kind, frozenset[str]] = {
    Kind.FAIL_AFTER: _WRITES | {"delete"},
    Kind.EXISTS_THOUGH_OURS: frozenset({"put_if_absent"}),
    Kind.EXISTS_WITHOUT_EFFECT: frozenset({"put_if_absent"}),
    Kind.TRUNCATE: _READS,
    Kind.STALE_READ: _READS | {"head"},
    Kind.STALE_LIST: frozenset({"list_from"}),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: which calls it strikes, how often, and what it does.

    `operation` and `key` are patterns (`*`, `?`); `skip` lets that many matching calls pass first;
    `times` is how many are struck (None: all). `seconds` is for DELAY, `keep` (bytes) for TRUNCATE,
    `newest` (writes) for STALE_LIST.
    """

    kind: Kind
    operation: str = "*"
    key: str = "*"
    times: int | None = 1
    skip: int = 0
    seconds: float = 0.0
    keep: int = 0
    newest: int = 1

    def strikes(self, operation: str, key: str) -> bool:
        """Tell whether a call is one that this fault is for, the counts aside."""
        return (
            operation in _ONLY.get(self.kind, OPERATIONS)
            and fnmatchcase(operation, self.operation)
            and fnmatchcase(key, self.key)
        )


@runtime_checkable
class Script(Protocol):
    """Decides, call by call."""

    def pick(self, operation: str, key: str) -> Fault | None:
        """Return the fault for this call, or None for a call that goes well."""
        ...


class ScriptedFaults:
    """Faults in the order given: the first that strikes and is not used up takes the call."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._faults = tuple(faults)
        self._seen = [0] * len(self._faults)
        self._lock = threading.Lock()

    def pick(self, operation: str, key: str) -> Fault | None:
        """Return the fault for this call, or None."""
        with self._lock:
            for index, fault in enumerate(self._faults):
                if not fault.strikes(operation, key):
                    continue
                turn = self._seen[index] - fault.skip
                if fault.times is not None and turn >= fault.times:
                    continue
                self._seen[index] += 1
                if turn >= 0:
                    return fault
        return None


class RandomFaults:
    """Each call fails with a probability; the same seed and calls give the same faults."""

    def __init__(
        self, seed: int, rate: float, kinds: Sequence[Kind] = tuple(Kind), seconds: float = 0.0
    ) -> None:
        self._random = random.Random(seed)  # noqa: S311 (chance for tests, not for secrets)
        self._rate = rate
        self._kinds = tuple(kinds)
        self._seconds = seconds
        self._lock = threading.Lock()

    def pick(self, operation: str, key: str) -> Fault | None:
        """Return the fault for this call, or None."""
        with self._lock:
            if self._random.random() >= self._rate:
                return None
            kind = self._random.choice(self._kinds)
            keep = self._random.randrange(64)
        fault = Fault(kind, seconds=self._seconds, keep=keep)
        return fault if fault.strikes(operation, key) else None


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
