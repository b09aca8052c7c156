"""What a forked child must not share with its parent.

A child has a copy of every object and none of the threads. Sockets, file locks and the state of
native libraries are shared with the parent, or were copied in the middle of a call. Objects that
hold such things start afresh in the child; native handles are left alone there for good, because
closing them would speak to the parent's server or change the parent's files.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
import weakref
from typing import Any, Protocol

# How long a fork waits for calls of other threads to end; native calls of ours are short.
_WAIT_S = 10.0
_PAUSE_S = 0.001


class StartsAfresh(Protocol):
    """An object that drops in a child what belongs to the parent."""

    def start_afresh(self) -> None:
        """Forget threads, connections and locks; runs in the child, before anything else does."""


_forks = 0
_objects: dict[int, weakref.ref[StartsAfresh]] = {}


def fork_count() -> int:
    """Return how many forks lie between this process and the first one.

    An object that remembers it knows whether it was made here, without asking the system.
    """
    return _forks


def start_afresh_after_fork(thing: StartsAfresh) -> None:
    """Have `thing.start_afresh()` called in every forked child, as long as the object lives."""
    key = id(thing)
    _objects[key] = weakref.ref(thing, lambda _: _objects.pop(key, None))


def abandon(handle: Any) -> None:
    """Keep a native handle of the parent alive for good, so that the child never closes it."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))


class ForkGate:
    """Lets a fork wait until no thread is inside of a native library.

    A child copies the library's locks as they are: one that another thread holds at that moment is
    never released. Threads enter for a `call`, and for a `change` as long as they hold a lock of
    the library; a fork waits for all of them but its own. Where that took too long, or where the
    forking thread itself is inside, `is_unsafe` is true in the child.

    Who is inside is a set, not a count: what an interrupt left in it, the thread's next call
    removes.
    """

    def __init__(self) -> None:
        self.is_unsafe = False
        self.call = _Passage(self, "call")
        self.change = _Passage(self, "change")
        self._inside: set[tuple[int, str]] = set()
        self._is_forking = False
        self._lock = threading.Lock()
        os.register_at_fork(before=self._before, after_in_parent=self._in_parent)
        start_afresh_after_fork(self)

    def enter(self, kind: str) -> None:
        """Enter; waits while another thread forks, unless this one is inside already."""
        thread = threading.get_ident()
        while True:
            with self._lock:
                if not self._is_forking or any(who == thread for who, _ in self._inside):
                    self._inside.add((thread, kind))
                    return
            time.sleep(_PAUSE_S)

    def leave(self, kind: str) -> None:
        """Leave."""
        with self._lock:
            self._inside.discard((threading.get_ident(), kind))

    def start_afresh(self) -> None:
        """In the child: nobody is inside any more."""
        self.is_unsafe = self.is_unsafe or bool(self._inside)
        self._inside = set()
        self._is_forking = False
        self._lock = threading.Lock()

    def _before(self) -> None:
        thread = threading.get_ident()
        deadline = time.monotonic() + _WAIT_S
        with self._lock:
            self._is_forking = True
        while any(who != thread for who, _ in tuple(self._inside)):
            if time.monotonic() >= deadline:
                return
            time.sleep(_PAUSE_S)

    def _in_parent(self) -> None:
        self._is_forking = False


class _Passage:
    """One way through a gate, as a context."""

    def __init__(self, gate: ForkGate, kind: str) -> None:
        self._gate = gate
        self._kind = kind

    def __enter__(self) -> None:
        self._gate.enter(self._kind)

    def __exit__(self, *_: object) -> None:
        self._gate.leave(self._kind)


def _in_child() -> None:
    global _forks  # noqa: PLW0603 (one process, one number)
    _forks += 1
    for reference in list(_objects.values()):
        thing = reference()
        if thing is not None:
            thing.start_afresh()


os.register_at_fork(after_in_child=_in_child)
