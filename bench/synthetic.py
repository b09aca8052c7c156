"""The files of the benchmark tables: deterministic, one partition column, statistics of 5 columns.

File number i of n lies in one of 1,000 partitions (a run of n / 1,000 files), and its `id` values
are i * 1,000 to i * 1,000 + 999, so that a range of ids names 0.1 % of the files exactly.
"""

import datetime as dt
import hashlib
import json
from collections.abc import Iterator

PARTITIONS = 1_000
FIRST_DAY = dt.date(2022, 1, 1)
DAYS = [(FIRST_DAY + dt.timedelta(days=i)).isoformat() for i in range(PARTITIONS)]
ONE_DAY = DAYS[PARTITIONS // 2]
ROWS = 1_000
COLUMNS = (
    ("id", "long"),
    ("ts", "timestamp"),
    ("user_id", "string"),
    ("amount", "double"),
    ("note", "string"),
    ("date", "date"),
)
INDEXED = tuple(name for name, _ in COLUMNS[:5])
SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in COLUMNS
        ],
    },
    separators=(",", ":"),
)


def day_number(i: int, n: int) -> int:
    """Return which of the partitions file i of n lies in."""
    return i * PARTITIONS // n % PARTITIONS


def day(i: int, n: int) -> str:
    return DAYS[day_number(i, n)]


def id_range(n: int) -> tuple[int, int]:
    """Return the ids, first and last, that 0.1 % of n files hold."""
    first = n // 2 * ROWS
    return first, first + n // 1_000 * ROWS - 1


def _hash(i: int) -> str:
    return hashlib.md5(i.to_bytes(8, "big"), usedforsecurity=False).hexdigest()


def path(i: int, n: int) -> str:
    """Return a name as Spark gives it, with a random-looking UUID."""
    h = _hash(i)
    uuid = f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"
    return f"date={day(i, n)}/part-{i % 200:05d}-{uuid}-c000.snappy.parquet"


def size(i: int) -> int:
    return 8_000_000 + (i * 7919) % 120_000_000


def modified(i: int) -> int:
    return 1_700_000_000_000 + i * 250


def bounds(i: int, n: int) -> tuple[dict, dict, dict]:
    """Return lowest values, highest values and counts of nulls."""
    h, d = _hash(i), day(i, n)
    a = int(h[:6], 16)
    low = {
        "id": i * ROWS,
        "ts": f"{d}T00:00:{a % 60:02d}.{a % 997:03d}Z",
        "user_id": f"user-0000{h[6:10]}",
        "amount": a % 100 + a % 9973 / 10_000,
        "note": f"a{h[10:18]}",
    }
    high = {
        "id": i * ROWS + ROWS - 1,
        "ts": f"{d}T23:59:{a % 59:02d}.{a % 991:03d}Z",
        "user_id": f"user-ffff{h[18:22]}",
        "amount": 900 + a % 100 + a % 9949 / 10_000,
        "note": f"z{h[22:30]}",
    }
    return low, high, {"id": 0, "ts": 0, "user_id": i % 7, "amount": 0, "note": a % 13}


def stats(i: int, n: int) -> str:
    low, high, nulls = bounds(i, n)
    whole = {"numRecords": ROWS, "minValues": low, "maxValues": high, "nullCount": nulls}
    return json.dumps(whole, separators=(",", ":"))


def add(i: int, n: int) -> dict:
    """Return the add action of file i of n as Delta's JSON."""
    return {
        "add": {
            "path": path(i, n),
            "partitionValues": {"date": day(i, n)},
            "size": size(i),
            "modificationTime": modified(i),
            "dataChange": True,
            "stats": stats(i, n),
        }
    }


def chunks(n: int, length: int) -> Iterator[range]:
    """Yield the numbers below n in runs."""
    for start in range(0, n, length):
        yield range(start, min(n, start + length))
