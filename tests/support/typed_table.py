"""Rows of many types, the same for every reader: text, times, decimals, nulls, lists, structs."""

import datetime as dt
import decimal

import pyarrow as pa

TYPES = pa.schema(
    [
        ("i", pa.int64()),
        ("small", pa.int16()),
        ("x", pa.float64()),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(12, 2)),
        ("flag", pa.bool_()),
        ("tags", pa.list_(pa.string())),
        ("inner", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("p", pa.string()),
    ]
)


def typed_rows(start: int, p: str | None) -> pa.Table:
    moment = dt.datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=dt.UTC)
    made = [
        {
            "i": number,
            "small": number % 7,
            "x": number / 3,
            "name": f"é-日本-{number}",
            "day": dt.date(2026, 1, 1) + dt.timedelta(days=number),
            "at": moment + dt.timedelta(seconds=number),
            "price": decimal.Decimal(number) / 4,
            "flag": None if number % 3 == 0 else number % 2 == 0,
            "tags": ["a", None, str(number)],
            "inner": {"a": number, "b": None},
            "p": p,
        }
        for number in range(start, start + 5)
    ]
    return pa.Table.from_pylist(made, schema=TYPES)
