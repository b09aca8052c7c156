"""A case in a fresh process: `python -m bench.child MODULE:FUNCTION JSON` prints one JSON line.

A function that takes time to get ready is a generator: what it does before its first `yield` is
not timed, then it waits for the parent's word, so that many processes start together.
"""

import importlib
import inspect
import json
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bench.server import ROOT

MARK = "@@"


class CaseFailedError(Exception):
    """A case did not end well; the text is the last line it said."""


def call(target: str, timeout: float = 900, **arguments: Any) -> dict[str, Any]:
    """Run one function in a process of its own and return what it measured."""
    return call_together(target, [arguments], timeout)[0]


def call_together(
    target: str, each: Sequence[dict[str, Any]], timeout: float = 900
) -> list[dict[str, Any]]:
    """Run one function in several processes that start their timed parts together."""
    processes = [_start(target, arguments) for arguments in each]
    try:
        for process in processes:
            _wait_ready(process)
        for process in processes:
            _go(process)
        return [_result(process, timeout) for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()


@contextmanager
def serving(
    target: str, timeout: float = 900, **arguments: Any
) -> Iterator[Callable[[], dict[str, Any]]]:
    """Let a function serve in a process of its own while the block runs.

    Calling what the block gets ends the child's input, which tells it to finish, and returns what
    it measured.
    """
    process = _start(target, arguments)
    try:
        _wait_ready(process)
        _go(process)
        yield lambda: _result(process, timeout)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def _go(process: subprocess.Popen[str]) -> None:
    process.stdin.write("go\n")
    process.stdin.flush()


def _start(target: str, arguments: dict[str, Any]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.child", target, json.dumps(arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT, bufsize=1
    )


def _wait_ready(process: subprocess.Popen[str]) -> None:
    if process.stdout.readline().strip() != MARK + "ready":
        raise CaseFailedError(_last_line(process.communicate()[1]))


def _result(process: subprocess.Popen[str], timeout: float) -> dict[str, Any]:
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise CaseFailedError(f"no answer within {timeout:.0f} s") from error
    found = [line for line in out.splitlines() if line.startswith(MARK)]
    if not found:
        raise CaseFailedError(_last_line(err))
    return json.loads(found[-1].removeprefix(MARK))


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    # it ends up in the report, where no folder of this machine belongs
    return re.sub(r"(/[^/\s:'\"]+)+/", "", lines[-1])[:300] if lines else "it said nothing"


def main() -> None:
    """Run the case that the command line names."""
    module, _, name = sys.argv[1].partition(":")
    function = getattr(importlib.import_module(module), name)
    arguments = json.loads(sys.argv[2])
    if inspect.isgeneratorfunction(function):
        steps = function(**arguments)
        next(steps)
        _ready()
        result = next(steps)
    else:
        _ready()
        result = function(**arguments)
    result["rss_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    print(MARK + json.dumps(result), flush=True)


def _ready() -> None:
    print(MARK + "ready", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
