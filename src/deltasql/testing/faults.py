"""Faults as values, and the scripts that decide when each one strikes."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import Protocol, runtime_checkable


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
