"""Start a server, wait until it answers, stop it for sure."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / ".tools"
_PATIENCE_S = 30.0


class Unavailable(Exception):  # noqa: N818 (a reason to skip, not a failure)
    """The server cannot be had here; the text says why."""


@dataclass
class Server:
    """A running server; `files` is where it keeps its data."""

    endpoint: str
    port: int
    files: Path
    process: subprocess.Popen[bytes]
    _directory: tempfile.TemporaryDirectory[str] = field(repr=False)
    parts: tuple[Server, ...] = ()

    def stop(self) -> None:
        """End the process, and those it stands on."""
        for part in (self, *self.parts):
            if part.process.poll() is None:
                part.process.send_signal(signal.SIGTERM)
                try:
                    part.process.wait(5)
                except subprocess.TimeoutExpired:
                    part.process.kill()
                    part.process.wait(5)
            part._directory.cleanup()


def tool(name: str) -> Path:
    """Return an installed server's program."""
    path = TOOLS / "bin" / name
    if not path.exists():
        raise Unavailable(f"{name} is not installed (make servers)")
    return path


def free_port() -> int:
    """Return a port of the loopback that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start(
    command: Sequence[str | Path],
    port: int,
    *,
    host: str = "127.0.0.1",
    env: Mapping[str, str] | None = None,
) -> Server:
    """Start a server that listens on the loopback's `port`; `{files}` becomes its directory."""
    directory = tempfile.TemporaryDirectory(prefix="deltasql-server-", ignore_cleanup_errors=True)
    files = Path(directory.name) / "files"
    files.mkdir()
    said = Path(directory.name) / "said.txt"
    words = [str(word).replace("{files}", str(files)) for word in command]
    with said.open("wb") as output:
        process = subprocess.Popen(
            words, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})}
        )
    server = Server(f"http://{host}:{port}", port, files, process, directory)
    try:
        _wait(server, words[0], said)
    except Unavailable:
        server.stop()
        raise
    return server


def _wait(server: Server, name: str, said: Path) -> None:
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        if server.process.poll() is not None:
            last = said.read_text(errors="replace").strip().splitlines()[-1:]
            raise Unavailable(f"{Path(name).name} ended at once: {''.join(last)[:200]}")
        if _answers(server.endpoint.removeprefix("http://")):
            return
        time.sleep(0.02)
    raise Unavailable(f"{Path(name).name} did not answer within {_PATIENCE_S:.0f} s")


def _answers(place: str) -> bool:
    connection = http.client.HTTPConnection(place, timeout=2)
    try:
        connection.request("GET", "/")
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    else:
        return True
    finally:
        connection.close()
