"""A function in a process of its own, and what a piece of work takes of memory and time.

A call that kills its process is told by name, and the next one gets a new process.
"""

import multiprocessing as mp
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

_GIGABYTE = 1024**3
# What is wasted beyond this fails by itself, before the machine suffers; it is not the measure.
_ADDRESSES = 6 * _GIGABYTE
_PATIENCE = 120


@dataclass
class Taken:
    """The most memory that this process had during a piece of work, and its processor time."""

    peak_bytes: int = 0
    seconds: float = 0.0


@contextmanager
def measured() -> Iterator[Taken]:
    """Measure the work inside."""
    found = Taken()
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    start = time.process_time()
    try:
        yield found
    finally:
        found.seconds = time.process_time() - start
        status = Path("/proc/self/status").read_text()
        found.peak_bytes = int(status.partition("VmHWM:")[2].split()[0]) * 1024


class CallDiedError(AssertionError):
    """The process of a call ended, or did not answer."""


class Apart:
    """Calls a function in another process; to be closed by `with`."""

    def __init__(self, make: Callable[[str], Callable[[Any], Any]], folder: Path) -> None:
        self.make, self.folder = make, folder
        self.made = 0
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def __call__(self, argument: Any) -> Any:
        """Return what the function does with the argument; what it raises is raised here.

        Raises:
            CallDiedError: it took its process with it.
        """
        self.ours.send(argument)
        try:
            if self.ours.poll(_PATIENCE):
                found, error = self.ours.recv()
                if error is not None:
                    raise error
                return found
            why = f"there was no answer in {_PATIENCE} seconds"
        except (EOFError, ConnectionResetError):
            self.process.join(5)
            why = f"the process ended with {self.process.exitcode}"
        self.renew()
        raise CallDiedError(why)

    def renew(self) -> None:
        """Go on in a new process."""
        self._stop()
        self._start()

    def _start(self) -> None:
        place = self.folder / f"process-{self.made}"
        place.mkdir()
        self.made += 1
        context = mp.get_context("spawn")
        self.ours, theirs = context.Pipe()
        self.process = context.Process(
            target=_serve, args=(theirs, self.make, str(place)), daemon=True
        )
        self.process.start()
        theirs.close()

    def _stop(self) -> None:
        self.ours.close()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _serve(theirs: Any, make: Callable[[str], Callable[[Any], Any]], place: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    function = make(place)
    while True:
        try:
            argument = theirs.recv()
        except EOFError:
            return
        try:
            answer = function(argument), None
        except BaseException as error:  # noqa: BLE001 (it is raised on the other side)
            answer = None, error
        theirs.send(answer)
