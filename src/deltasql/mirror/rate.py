"""How much a worker may do in a while: a bucket of tokens that fills evenly."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Rate:
    """At most `per_s` a second, and at most `burst` at once; 0 is no limit. Safe in many threads.

    Time and waiting come from outside.
    """

    per_s: float = 0.0
    burst: float = 1.0
    monotonic: Callable[[], float] = time.monotonic
    _tokens: float = field(init=False)
    _at: float | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._tokens = self.burst

    @classmethod
    def per_second(cls, count: int) -> Rate:
        """Return a limit of so many a second."""
        return cls(float(count), max(float(count), 1.0))

    @classmethod
    def per_minute(cls, count: int) -> Rate:
        """Return a limit of so many a minute, none of them saved up."""
        return cls(count / 60)

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return self.per_s > 0

    def try_take(self, wanted: int = 1) -> tuple[int, float]:
        """Take up to so many tokens; return how many, and, where none, the seconds until one."""
        if not self.is_limited:
            return wanted, 0.0
        with self._lock:
            self._fill()
            taken = min(wanted, int(self._tokens + _NEARLY))
            self._tokens -= taken
            return taken, 0.0 if taken else (1.0 - self._tokens) / self.per_s

    def take(self, wanted: int, wait: Callable[[float], bool]) -> int:
        """Take at least one token and up to so many; 0 where `wait` says that all is over."""
        while True:
            taken, pause = self.try_take(wanted)
            if taken or wait(pause):
                return taken

    def give_back(self, count: int) -> None:
        """Return tokens that were not used."""
        if self.is_limited and count > 0:
            with self._lock:
                self._tokens = min(self.burst, self._tokens + count)

    def _fill(self) -> None:
        now = self.monotonic()
        passed = 0.0 if self._at is None else max(now - self._at, 0.0)
        self._at = now
        self._tokens = min(self.burst, self._tokens + passed * self.per_s)


# Sums of fractions of a second may end a hair below a whole token.
_NEARLY = 1e-9
