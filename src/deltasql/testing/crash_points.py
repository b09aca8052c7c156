"""Crash points for tests: enumerate them, watch them, kill a process at one of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import deltasql.crash
from deltasql.crash import Hook, hook_from_env, install

_CALL = re.compile(r"""\bcrash_point\(\s*f?["']([^"']+)["']""")


def enable(env: Mapping[str, str] | None = None) -> None:
    """Obey DELTASQL_CRASH_AT and DELTASQL_CRASH_TRACE in this process from now on."""
    install(hook_from_env(os.environ if env is None else env))


@contextmanager
def hooked(hook: Hook) -> Iterator[None]:
    """Let every crash point call `hook` inside the block."""
    previous = install(hook)
    try:
        yield
    finally:
        install(previous)


def declared_points() -> tuple[str, ...]:
    """Return all crash points in the package's source, sorted; an f-string as its template."""
    package = Path(deltasql.crash.__file__).parent
    texts = (file.read_text(encoding="utf-8") for file in sorted(package.rglob("*.py")))
    return tuple(sorted({name for text in texts for name in _CALL.findall(text)}))


def traced_points(file: Path) -> tuple[str, ...]:
    """Return the points that a traced run passed, in order."""
    return tuple(file.read_text(encoding="utf-8").splitlines()) if file.exists() else ()
