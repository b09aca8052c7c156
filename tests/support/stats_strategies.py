"""Statistics for property tests: columns of every type, and whatever may stand for a bound."""

import json
from decimal import Decimal as Number

from hypothesis import strategies as st

from deltasql.protocol.schema.columns import leaves
from deltasql.protocol.schema.types import (
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Decimal,
    StructField,
    StructType,
)

TYPES = {
    "i": LONG,
    "b": BYTE,
    "d": Decimal(20, 3),
    "x": DOUBLE,
    "f": FLOAT,
    "s": STRING,
    "day": DATE,
    "ts": TIMESTAMP,
    "n": TIMESTAMP_NTZ,
    "flag": BOOLEAN,
}
COLUMNS = list(leaves(StructType(tuple(StructField(name, kind) for name, kind in TYPES.items()))))
_TIMES = st.datetimes().map(lambda t: t.isoformat(timespec="milliseconds")) | st.datetimes().map(
    lambda t: t.isoformat()
)
_WORDS = st.sampled_from(
    [
        "2024-W01-1T00:00:00.000Z",
        "2024-02-30T00:00:00.000Z",
        "2024-01-01T24:00:00.000Z",
        "2024-01-01T00:00:60.000Z",
        "2024-01-01 00:00:00.000Z",
        "2024-01-01T00:00:00,000Z",
        "2024-01-01T00:00:00.000z",
        "٢٠٢٤-01-01T00:00:00.000Z",
        "0000-01-01T00:00:00.000Z",
        "Infinity",
        "NaN",
        "\0",
        "a" * 33 + "\ufffd",
        "\ud800",
    ]
)
RAW = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.integers(2**53 - 3, 2**53 + 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([Number("1e400"), Number("-1e400"), Number("0.1"), Number("1e-400")])
    | st.text(max_size=40)
    | _TIMES
    | _TIMES.map(lambda text: text + "Z")
    | st.dates().map(str)
    | _WORDS
    | st.just({})
    | st.just([])
)


def written(raw) -> str:
    return str(raw) if isinstance(raw, Number) else json.dumps(raw)
