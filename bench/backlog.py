"""Catalogs of tables with many small commits that no log has yet, to be mirrored again and again.

A kept catalog stays as it is: a round works on a copy of its database, and its logs are removed
first. The locations of the tables are those of the kept one, so only one copy may be in use.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import ours, synthetic
from bench.child import CaseFailedError
from bench.results import Plan

_FILES = 1_000


def names(tables: int) -> list[str]:
    return [f"t{number}" for number in range(tables)]


def build(place: dict[str, Any], backend: str, tables: int, commits: int) -> None:
    """In a child: make so many commits to each of the tables, in turn, and mirror none."""
    with ours.connect(place, backend, "off") as catalog:
        made = [create(catalog, f"{place['dir']}/tables/{name}", name) for name in names(tables)]
        for i in range(commits):
            for number, table in enumerate(made):
                table.commit([add(number, i)])


def create(catalog: Any, location: str, name: str) -> Any:
    """Make one of the tables, with every column indexed as in the other cases."""
    return catalog.create_table(
        name, location=location, schema=synthetic.SCHEMA, partition_by=["date"]
    )


def add(table: int, i: int) -> dict[str, Any]:
    """Return the one file of a table's commit number i."""
    return synthetic.add(table * 10_000_000 + i, _FILES)


@contextmanager
def copied(plan: Plan, kept: dict[str, Any], backend: str) -> Iterator[dict[str, Any]]:
    """Give a copy of a kept catalog whose logs are empty, for as long as the block lasts."""
    folder = Path(kept["dir"])
    place = kept | {"sqlite_uri": f"deltasql://sqlite/{folder}/copy.db"}
    name = f"{kept['name']}_copy"
    if backend == "postgres":
        place |= {"name": name, "pg_uri": plan.server.uri(name), "pg_dsn": plan.server.dsn(name)}
    _remove(plan, folder, name, backend)
    if backend == "postgres":
        plan.copy_database(kept["name"], name)
    elif (wal := folder / "catalog.db-wal").exists() and wal.stat().st_size:
        raise CaseFailedError("the kept catalog was not closed: its database is not whole")
    else:
        shutil.copy(folder / "catalog.db", folder / "copy.db")
    try:
        yield place
    finally:
        _remove(plan, folder, name, backend)


def _remove(plan: Plan, folder: Path, name: str, backend: str) -> None:
    shutil.rmtree(folder / "tables", ignore_errors=True)
    for file in folder.glob("copy.db*"):
        file.unlink()
    if backend == "postgres":
        plan.drop_database(name)
