"""Who commits: one add with statistics of 5 columns to one table, durably, as cheaply as it can.

Each contender has `setup(place)`, run once, and `open(place, writer)`, which returns a function
that makes commit number i. No data file is written where the contender can do without.
"""

from collections.abc import Callable
from typing import Any

from bench import ours, synthetic
from bench.peers import duck, ducklake_attach, iceberg_catalog, iceberg_file, iceberg_schema

Commit = Callable[[int], None]
Place = dict[str, Any]
_FILES = 1_000  # the size that partitions are computed with: every commit meets another one


def number(writer: int, i: int) -> int:
    """Return a file number that no other writer uses."""
    return writer * 10_000_000 + i


class DeltaSql:
    """deltasql, by the public Table.commit."""

    def __init__(self, backend: str, mode: str) -> None:
        self.backend, self.mode = backend, mode

    def _connect(self, place: Place) -> Any:
        return ours.connect(place, self.backend, self.mode)

    def setup(self, place: Place) -> None:
        with self._connect(place) as catalog:
            location = f"{place['dir']}/table"
            catalog.create_table(
                "t", location=location, schema=synthetic.SCHEMA, partition_by=["date"]
            )

    def open(self, place: Place, writer: int) -> Commit:
        table = self._connect(place).table("t")
        return lambda i: table.commit([synthetic.add(number(writer, i), _FILES)])


class DeltaRs:
    """deltalake, by create_write_transaction on a table held open."""

    def _schema(self) -> Any:
        from deltalake import Schema

        return Schema.from_json(synthetic.SCHEMA)

    def setup(self, place: Place) -> None:
        from deltalake import DeltaTable

        DeltaTable.create(f"{place['dir']}/table", schema=self._schema(), partition_by=["date"])

    def open(self, place: Place, writer: int) -> Commit:
        from deltalake import DeltaTable
        from deltalake.transaction import AddAction

        table, schema = DeltaTable(f"{place['dir']}/table"), self._schema()

        def commit(i: int) -> None:
            given = synthetic.add(number(writer, i), _FILES)["add"]
            values, modified = given["partitionValues"], given["modificationTime"]
            action = AddAction(given["path"], given["size"], values, modified, True, given["stats"])
            try:
                table.create_write_transaction([action], "append", schema, ["date"])
            except Exception:
                table.update_incremental()
                raise

        return commit


class DuckLake:
    """DuckLake with the row inlined into its catalog: no file at all."""

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def setup(self, place: Place) -> None:
        connection = self._connect(place)
        kinds = {"long": "BIGINT", "string": "VARCHAR", "double": "DOUBLE"}
        columns = ", ".join(f"{n} {kinds.get(k, k.upper())}" for n, k in synthetic.COLUMNS)
        connection.execute(f"CREATE TABLE l.t({columns})")
        connection.close()

    def _connect(self, place: Place) -> Any:
        connection = duck(self.backend)
        ducklake_attach(connection, self.backend, place, inline=10)
        return connection

    def open(self, place: Place, writer: int) -> Commit:
        connection = self._connect(place)

        def commit(i: int) -> None:
            low, _, _ = synthetic.bounds(number(writer, i), _FILES)
            day = synthetic.day(i, _FILES)
            values = [low["id"], low["ts"], low["user_id"], low["amount"], low["note"], day]
            connection.execute("INSERT INTO l.t VALUES (?, ?, ?, ?, ?, ?)", values)

        return commit


class Iceberg:
    """pyiceberg with its SQL catalog on SQLite, by a fast append of one registered file."""

    def setup(self, place: Place) -> None:
        catalog = iceberg_catalog(place["dir"])
        catalog.create_namespace("n")
        schema, spec = iceberg_schema()
        catalog.create_table("n.t", schema, partition_spec=spec)

    def open(self, place: Place, writer: int) -> Commit:
        table = iceberg_catalog(place["dir"]).load_table("n.t")

        def commit(i: int) -> None:
            file = iceberg_file(number(writer, i), _FILES, place["dir"])
            with table.transaction() as change, change.update_snapshot().fast_append() as append:
                append.append_data_file(file)

        return commit


CONTENDERS: dict[str, tuple[str, Any]] = {
    "deltasql-sqlite": ("deltasql, SQLite, SQL commit", DeltaSql("sqlite", "off")),
    "deltasql-postgres": ("deltasql, PostgreSQL, SQL commit", DeltaSql("postgres", "off")),
    "deltasql-sqlite-inline": ("deltasql, SQLite, mirrored inline", DeltaSql("sqlite", "inline")),
    "deltasql-postgres-inline": (
        "deltasql, PostgreSQL, mirrored inline",
        DeltaSql("postgres", "inline"),
    ),
    "deltasql-sqlite-worker": ("deltasql, SQLite, beside a worker", DeltaSql("sqlite", "worker")),
    "deltasql-postgres-worker": (
        "deltasql, PostgreSQL, beside a worker",
        DeltaSql("postgres", "worker"),
    ),
    "deltalake": ("deltalake (delta-rs)", DeltaRs()),
    "ducklake-sqlite": ("DuckLake, SQLite, row inlined", DuckLake("sqlite")),
    "ducklake-postgres": ("DuckLake, PostgreSQL, row inlined", DuckLake("postgres")),
    "pyiceberg": ("pyiceberg, SQLite", Iceberg()),
}
