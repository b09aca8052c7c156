"""A worker that treats a SQLite catalog as users do: appends, reopens, forks, peeks, and dies."""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import duckdb
import duckdb_extension_sqlite_scanner

import deltasql
from builders import NO_MIRROR, an_add

_LOOK = (
    "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]);"
    "c.execute('select count(*) from dl_history').fetchall(); c.close()"
)


class Worker:
    """Does random things, each of which is drawn from the seed; tells what was acknowledged."""

    def __init__(self, file: str, ledger: str, seed: int) -> None:
        self.file = file
        self.uri = f"deltasql://sqlite/{file}"
        self.ledger = ledger
        self.seed = seed
        self.chance = random.Random(seed)
        self.number = 0
        self.catalog = deltasql.connect(self.uri, settings=NO_MIRROR)
        self.catalog.create_if_missing()

    def run(self, rounds: int) -> None:
        actions = [self.append] * 8 + [self.fork] * 2 + [self.reopen, self.peek, self.look]
        actions += [self.peek_with_duckdb, self.die]
        for done in range(rounds):
            action = self.chance.choice(actions)
            if action == self.die and done < rounds // 4:
                action = self.append
            action()
            self.tell("round")
        self.catalog.close()

    def append(self, name: str = "") -> None:
        self.number += 1
        token = f"{self.seed}-{name}{self.number}"
        version = self.catalog.table("orders").commit([an_add(token)], commit_id=token)
        self.tell([token, version])

    def fork(self) -> None:
        """The child commits; sometimes the parent closes first, sometimes it commits beside it."""
        closes_first = self.chance.random() < 0.3
        self.number += 1
        name = f"c{self.number}-"
        child = os.fork()
        if child == 0:
            try:
                for _ in range(2):
                    self.append(name)
            except BaseException as error:  # noqa: BLE001 (it must reach the ledger)
                self.tell({"error": f"{type(error).__name__}: {error}"})
            os._exit(0)
        if closes_first:
            self.reopen()
        else:
            self.append()
        os.waitpid(child, 0)

    def reopen(self) -> None:
        self.catalog.close()
        self.catalog = deltasql.connect(self.uri, settings=NO_MIRROR)

    def peek(self) -> None:
        connection = sqlite3.connect(self.file)
        connection.execute("select count(*) from dl_history").fetchall()
        connection.close()

    def peek_with_duckdb(self) -> None:
        folder = Path(duckdb_extension_sqlite_scanner.__file__).parent
        extension = next(folder.rglob("sqlite_scanner.duckdb_extension"))
        with duckdb.connect() as connection:
            connection.execute(f"load '{extension}'")
            query = "select count(*) from sqlite_scan(?, 'dl_tables')"
            connection.execute(query, [self.file]).fetchall()

    def look(self) -> None:
        """Another program opens the file and closes it again."""
        shell = shutil.which("sqlite3")
        command = [shell, self.file, "select count(*) from dl_history"]
        if shell is None:
            command = [sys.executable, "-c", _LOOK, self.file]
        subprocess.run(command, check=True, capture_output=True)

    def die(self) -> None:
        self.tell("round")
        os.kill(os.getpid(), signal.SIGKILL)

    def tell(self, line: object) -> None:
        """Write a line at once; lines of several processes do not mix."""
        descriptor = os.open(self.ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(descriptor, (json.dumps(line) + "\n").encode())
        os.close(descriptor)


if __name__ == "__main__":
    Worker(sys.argv[1], sys.argv[2], int(sys.argv[3])).run(int(sys.argv[4]))
