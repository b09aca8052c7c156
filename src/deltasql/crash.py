"""Named points where a test may kill the process.

In production a point is one comparison with None. The names are not listed anywhere: they are
found by use (`deltasql.testing.crash_points.declared_points`, or the trace of a run).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from deltasql.errors import ConfigError

Hook = Callable[[str], None]

_hook: Hook | None = None


def crash_point(name: str) -> None:
    """Mark a place between two effects; does nothing unless a test installed a hook."""
    if _hook is not None:
        _hook(name)


def install(hook: Hook | None) -> Hook | None:
    """Let every point call `hook` (None: nothing again); return the hook that was there."""
    global _hook
    previous, _hook = _hook, hook
    return previous


def hook_from_env(env: Mapping[str, str]) -> Hook | None:
    """Return the hook that DELTASQL_CRASH_AT=name[:n] and DELTASQL_CRASH_TRACE=file ask for."""
    trace = env.get("DELTASQL_CRASH_TRACE")
    name, passages = _parse_crash_at(env.get("DELTASQL_CRASH_AT", ""))
    if not trace and not name:
        return None
    left = passages

    def hook(point: str) -> None:
        nonlocal left
        if trace:
            _append(Path(trace), point)
        if point == name:
            left -= 1
            if left == 0:
                _die()

    return hook


def _parse_crash_at(text: str) -> tuple[str, int]:
    name, colon, count = text.partition(":")
    if colon and not (count.isdecimal() and int(count) > 0):
        raise ConfigError("DELTASQL_CRASH_AT is name or name:n with n from 1.", setting=text)
    return name, int(count) if colon else 1


def _append(file: Path, point: str) -> None:
    # one write to an O_APPEND descriptor: lines of several processes do not mix
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, f"{point}\n".encode())
    finally:
        os.close(descriptor)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    os._exit(137)  # SIGKILL is delivered before kill() returns; this is for kernels that wait


if os.environ.get("DELTASQL_TESTING") == "1":
    install(hook_from_env(os.environ))
