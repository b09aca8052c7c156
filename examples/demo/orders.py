"""What the demo's tables hold, and a table as others have written it."""

from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.compute as pc

FIRST_DAY = date(2026, 1, 1)
LEGACY_DAYS = 10
PER_DAY = 1000
_CITIES = ("Oslo", "Lima", "Kyiv", "Pune")


def orders_of(number: int) -> pa.Table:
    """Return the orders of a day, from 0."""
    numbers = range(number * PER_DAY, (number + 1) * PER_DAY)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "city": pa.array([_CITIES[n % len(_CITIES)] for n in numbers]),
            "amount": pa.array(
                [Decimal(n * 7919 % 100_000) / 100 for n in numbers], pa.decimal128(12, 2)
            ),
            "day": pa.array([FIRST_DAY + timedelta(days=number)] * PER_DAY),
        }
    )


def totals_of(orders: pa.Table) -> pa.Table:
    """Return one row about the orders of a day."""
    return pa.table(
        {
            "day": orders["day"].slice(0, 1),
            "orders": pa.array([orders.num_rows], pa.int64()),
            "amount": pa.array([pc.sum(orders["amount"]).as_py()], pa.decimal128(18, 2)),
        }
    )


def write_legacy(place: Path) -> int:
    """Write a table with a history by deltalake; return its newest version."""
    for number in range(LEGACY_DAYS):
        deltalake.write_deltalake(
            str(place), orders_of(number), mode="append", partition_by=["day"]
        )
    table = deltalake.DeltaTable(str(place))
    table.create_checkpoint()
    table.delete(f"day = '{FIRST_DAY}'")
    return int(table.version())


def legacy_refusal(place: Path) -> str:
    """Return what deltalake says when it is to write to a table that was taken over."""
    try:
        deltalake.write_deltalake(str(place), orders_of(LEGACY_DAYS), mode="append")
    except Exception as error:
        return str(error).strip().splitlines()[0]
    return ""
