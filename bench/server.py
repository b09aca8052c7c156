"""The benchmarks' own PostgreSQL: durable settings, data kept between runs, stopped at the end."""

import os
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tests/support"))

from pg_server import Build, PostgresServer, UnavailableError, find_builds, run  # noqa: E402

DURABLE = (
    "fsync=on",
    "full_page_writes=on",
    "synchronous_commit=on",
    "shared_buffers=1GB",
    "max_wal_size=8GB",
    "max_connections=100",
    "timezone=UTC",
)


@contextmanager
def postgres(home: Path) -> Iterator[PostgresServer | None]:
    """Run a server on the cluster in `home`; None, with the reason told, if there is none."""
    try:
        server = _start(home)
    except UnavailableError as error:
        print(f"PostgreSQL cannot be had: {error}", file=sys.stderr)
        yield None
        return
    try:
        yield server
    finally:
        server.stop()


def _start(home: Path) -> PostgresServer:
    builds = find_builds()
    if not builds:
        raise UnavailableError("no PostgreSQL is installed")
    build = builds[0]
    if (home / "build").exists() and (home / "build").read_text() != str(build.major):
        shutil.rmtree(home)
    if not (home / "build").exists():
        _create(build, home)
    if (home / "data/postmaster.pid").exists():  # a run before this one was killed
        with suppress(UnavailableError):
            PostgresServer(build, home, 0, "").stop()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    given = ("listen_addresses=127.0.0.1", "unix_socket_directories=''", *DURABLE)
    options = " ".join([f"-p {port}", *(f"-c {setting}" for setting in given)])
    server = PostgresServer(build, home, port, options)
    server.start()
    return server


def _create(build: Build, home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    if os.geteuid() == 0:
        shutil.chown(home, "nobody", "nogroup")
    flags = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C")
    run(build.bindir / "initdb", "-D", home / "data", *flags)
    (home / "build").write_text(str(build.major))
