"""The demo: two tables, one transaction, and the same rows through four readers."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from deltasql.cli.app import App, command, pass_app
from deltasql.cli.readers import READERS, Count
from deltasql.errors import BadArgumentError, MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa

_MARKER: Final = ".deltasql-demo"
_FIRST_DAY: Final = date(2026, 1, 1)
_CITIES: Final = ("Oslo", "Lima", "Kyiv", "Pune")
_PER_DAY: Final = 1000
_DIFFERENCE: Final = 3


@command(example="deltasql demo --dir .demo")
@click.option("--dir", "folder", default=".demo", show_default=True, help="Where to work.")
@pass_app
def demo(app: App, folder: str) -> None:
    """Show two tables, one transaction and four readers in a folder.

    The folder is emptied first if an earlier demo made it.
    """
    import deltasql

    home = _fresh(Path(folder))
    app.out.note(f"A catalog in SQLite: {folder}/catalog.db")
    with deltasql.connect(f"deltasql://sqlite/{home}/catalog.db") as catalog:
        orders = _write(app, catalog, home)
        _headline(app, "The history of orders, from SQL:")
        columns = ["version", "operation", "adds", "removes"]
        if app.output == "text":
            app.out.rows([asdict(entry) for entry in reversed(orders.history())], columns)
        orders.wait_mirrored(orders.version, timeout=30)
        rows = orders.scan(columns=["amount"]).to_arrow()
    _headline(app, "The same rows, from SQL and from the mirrored _delta_log:")
    counts = _read_back(str(home / "orders"), rows)
    app.out.rows(counts, ["reader", "rows", "sum", "verdict"])
    if any(row["verdict"] == "different" for row in counts):
        raise click.exceptions.Exit(_DIFFERENCE)


def _headline(app: App, text: str) -> None:
    for line in ("", text, ""):
        app.out.note(line)


def _fresh(folder: Path) -> Path:
    home = folder.resolve()
    if home.exists() and not (home / _MARKER).exists() and any(home.iterdir()):
        raise BadArgumentError(f"{folder} is not empty and was not made by the demo.")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    (home / _MARKER).touch()
    return home


def _write(app: App, catalog: Any, home: Path) -> Any:

    first = _orders(_FIRST_DAY)
    orders = catalog.create_table(
        "orders", location=f"{home}/orders", schema=first.schema, partition_by=["day"]
    )
    totals = catalog.create_table(
        "totals", location=f"{home}/totals", schema=_totals(first, _FIRST_DAY).schema
    )
    for number in range(2):
        version = orders.append(_orders(_FIRST_DAY + timedelta(days=number)))
        app.out.note(f"orders@{version}: {_PER_DAY} rows appended")
    day = _FIRST_DAY + timedelta(days=2)
    batch: pa.Table = _orders(day)
    with catalog.transaction(operation="LOAD") as transaction:
        transaction.table("orders").append(batch)
        transaction.table("totals").append(_totals(batch, day))
    app.out.note(f"orders@{orders.version} and totals@{totals.version}: one transaction")
    version = orders.delete(f"day = '{_FIRST_DAY}'")
    app.out.note(f"orders@{version}: the partition {_FIRST_DAY} deleted")
    return orders


def _orders(day: date) -> pa.Table:
    import pyarrow as pa

    start = (day - _FIRST_DAY).days * _PER_DAY
    numbers = range(start, start + _PER_DAY)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "city": pa.array([_CITIES[n % len(_CITIES)] for n in numbers]),
            "amount": pa.array(
                [Decimal(n * 7919 % 100_000) / 100 for n in numbers], pa.decimal128(12, 2)
            ),
            "day": pa.array([day] * _PER_DAY),
        }
    )


def _totals(orders: pa.Table, day: date) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    total = pc.sum(orders["amount"]).as_py()
    return pa.table(
        {
            "day": pa.array([day]),
            "orders": pa.array([orders.num_rows], pa.int64()),
            "amount": pa.array([total], pa.decimal128(18, 2)),
        }
    )


def _read_back(location: str, rows: pa.Table) -> list[dict[str, Any]]:
    import pyarrow.compute as pc

    truth: Count = rows.num_rows, pc.sum(rows["amount"]).as_py()
    found = [{"reader": "deltasql", "rows": truth[0], "sum": truth[1], "verdict": "truth"}]
    for name, read in READERS.items():
        try:
            count, total = read(location)
        except MissingExtraError as error:
            found.append({"reader": name, "verdict": error.message})
            continue
        verdict = "equal" if (count, total) == truth else "different"
        found.append({"reader": name, "rows": count, "sum": total, "verdict": verdict})
    return found
