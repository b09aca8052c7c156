"""Rows and filters, random and seeded, that mean the same to Spark, to DuckDB and to us.

Rows hold what engines disagree about: NaN, both zeros, infinities, decimals, times before 1970.
"""

import datetime as dt
import random
from decimal import Decimal as Number
from typing import Any

import pyarrow as pa

from deltasql.protocol.schema.arrow import from_arrow_schema
from deltasql.protocol.values import Value

NAN, INF = float("nan"), float("inf")
ARROW = pa.schema(
    [
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("f", pa.float32()),
        ("d", pa.decimal128(12, 3)),
        ("e", pa.decimal128(12, 3)),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("n", pa.timestamp("us")),
        ("i", pa.int64()),
        ("s", pa.string()),
    ]
)
SCHEMA = from_arrow_schema(ARROW)
_OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
_EPOCH = dt.datetime(1970, 1, 1)
_FLOATS = (NAN, INF, -INF, 0.0, -0.0, 1.5, -1.5, 0.25, 1e30, -1e30)
_TEXTS = ("", "a", "ab", "abc", "b", "B", "xyz", "é%")
_PATTERNS = ("'a%'", "'%b'", "'_b%'", "'ab'", "'%'", "''", "'x_z'")
_UNITS = (0, 1, -1, 1500, -1500, 999_999_999, -999_999_999)
_MICROS = (0, 1, -1, -86_400_000_000, -62_000_000_000_000_000, 1_700_000_000_123_456, -1_500_000)


def random_rows(seed: int, count: int) -> pa.Table:
    """Return rows of all columns, a tenth of their values null."""
    rng = random.Random(seed)
    return pa.Table.from_pylist([_row(rng) for _ in range(count)], schema=ARROW)


def values_of(table: pa.Table) -> list[dict[str, Value | None]]:
    """Return rows as filters have them: dates in days, times in microseconds."""
    plain = {name: table[name] for name in table.column_names}
    plain["day"] = plain["day"].cast(pa.int32())
    for name in ("ts", "n"):
        plain[name] = plain[name].cast(pa.int64())
    return pa.table({name: plain[name] for name in ARROW.names}).to_pylist()


def random_filter(rng: random.Random, depth: int = 2) -> str:
    """Return a filter; `<=>` and `isnan` are left out: DuckDB writes them otherwise."""
    if depth and rng.random() < 0.55:
        left, right = random_filter(rng, depth - 1), random_filter(rng, depth - 1)
        joined = f"({left}) {rng.choice(['and', 'or'])} ({right})"
        return f"not ({joined})" if rng.random() < 0.3 else joined
    name = rng.choice(["x", "x", "x", "y", "f", "f", "d", "day", "ts", "n", "i"])
    form = rng.random()
    if form < 0.12:
        return f"{name} is {rng.choice(['', 'not '])}null"
    if form < 0.24:
        values = ", ".join(_literal(rng, name) for _ in range(rng.randrange(1, 4)))
        return f"{name} {rng.choice(['', 'not '])}in ({values})"
    if form < 0.36:
        negated = rng.choice(["", "not "])
        return f"{name} {negated}between {_literal(rng, name)} and {_literal(rng, name)}"
    negated = rng.choice(["", "", "not "])
    if form < 0.5:
        return _like_or_columns(rng, negated)
    return f"{negated}{name} {rng.choice(_OPERATORS)} {_literal(rng, name)}"


def _like_or_columns(rng: random.Random, negated: str) -> str:
    if rng.random() < 0.5:
        return f"s {negated}like {rng.choice(_PATTERNS)}"
    left, right = rng.choice([("x", "y"), ("y", "x"), ("d", "e"), ("x", "x")])
    return f"{negated}{left} {rng.choice(_OPERATORS)} {right}"


def _row(rng: random.Random) -> dict[str, Any]:
    made = {
        "x": rng.choice(_FLOATS),
        "y": rng.choice(_FLOATS),
        "f": rng.choice(_FLOATS[:8]),
        "d": Number(rng.choice(_UNITS)).scaleb(-3),
        "e": Number(rng.choice(_UNITS)).scaleb(-3),
        "day": (_EPOCH + dt.timedelta(microseconds=rng.choice(_MICROS))).date(),
        "ts": (_EPOCH + dt.timedelta(microseconds=rng.choice(_MICROS))).replace(tzinfo=dt.UTC),
        "n": _EPOCH + dt.timedelta(microseconds=rng.choice(_MICROS)),
        "i": rng.randrange(-3, 4),
        "s": rng.choice(_TEXTS),
    }
    return {name: None if rng.random() < 0.1 else value for name, value in made.items()}


def _literal(rng: random.Random, name: str) -> str:
    match name:
        case "x" | "y" | "f":
            # an integer of no exponent would be a decimal to both engines, and exact to us
            texts = ["'NaN'", "'Infinity'", "'-Infinity'", "0.0", "-0.0", "1.5", "0.25", "'1.5'"]
            return rng.choice([*texts, "cast('NaN' as double)"])
        case "d" | "e":
            return format(Number(rng.choice(_UNITS)).scaleb(-3), "f")
        case "i":
            return rng.choice(["0", "2", "-2", "1.5"])
    moment = _EPOCH + dt.timedelta(microseconds=rng.choice(_MICROS))
    if name == "day":
        return f"date '{moment.date()}'"
    if name == "ts":
        return f"timestamp '{moment.isoformat(sep=' ')}+00:00'"
    return f"'{moment.isoformat(sep=' ')}'"
