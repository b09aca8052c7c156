"""A PostgreSQL primary with a streaming, synchronous standby, and the failover between them."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

import pg_server
import processes
from pg_server import Build, PostgresServer
from server_process import free_port

# A commit is acknowledged when the standby has it, too: then no failover loses it.
SETTINGS = ("fsync=off", "wal_level=replica", "max_wal_senders=5", "hot_standby=on")


@dataclass
class PostgresPair:
    """Two nodes with ports that stay; which one is the primary changes."""

    primary: PostgresServer
    standby: PostgresServer

    @property
    def nodes(self) -> tuple[PostgresServer, PostgresServer]:
        return self.primary, self.standby

    def uri(self, database: str) -> str:
        """Return a URI that finds whichever node takes writes."""
        first, second = sorted(self.nodes, key=lambda node: node.port)
        return (
            f"deltasql://postgres/{database}/deltasql?host=127.0.0.1,127.0.0.1"
            f"&port={first.port},{second.port}&user=postgres"
            "&target_session_attrs=read-write&connect_timeout=5"
        )

    def fail_over(self) -> None:
        """Crash the primary, promote the standby, and rebuild the old primary as its standby."""
        dead = self.primary
        dead.stop("immediate")
        self.standby._control("promote")
        self.primary, self.standby = self.standby, dead
        self.follow()

    def follow(self) -> None:
        """Make the standby a fresh copy of the primary and wait until it streams."""
        data = self.standby.home / "data"
        shutil.rmtree(data, ignore_errors=True)
        pg_server.run(
            self.primary.build.bindir / "pg_basebackup",
            *("-h", "127.0.0.1", "-p", str(self.primary.port), "-U", "postgres"),
            *("-D", str(data), "-R", "-X", "stream", "-c", "fast", "--no-sync"),
        )
        self.standby.start()
        query = "select count(*) from pg_stat_replication where sync_state = 'sync'"
        with psycopg.connect(self.primary.dsn(), autocommit=True) as look:
            look.execute("alter system set synchronous_standby_names = '*'")
            look.execute("select pg_reload_conf()")
            processes.until(lambda: look.execute(query).fetchall()[0][0] == 1)


@contextmanager
def running_pair(build: Build) -> Iterator[PostgresPair]:
    """Give a pair, inside the block."""
    primary = pg_server.start_server(build, SETTINGS)
    home = Path(f"{primary.home}-standby")
    home.mkdir()
    subprocess.run(["chown", "--reference", str(primary.home), str(home)], check=True)
    (home / "owner").write_text((primary.home / "owner").read_text())
    port = free_port()
    options = primary.options.replace(f"-p {primary.port}", f"-p {port}").replace(
        f"unix_socket_directories={primary.home}", f"unix_socket_directories={home}"
    )
    pair = PostgresPair(primary, PostgresServer(build, home, port, options))
    try:
        pair.follow()
        yield pair
    finally:
        for node in pair.nodes:
            node.remove()
