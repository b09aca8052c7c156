"""A writer that bypasses SQL: real files and commits in a table's log, under any number."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from builders import rows
from deltasql.protocol.actions import Action, Add, CommitInfo
from deltasql.protocol.codec import serialize_actions
from deltasql.protocol.log_names import commit_key


def place_of(table) -> Path:
    return Path(table.location.removeprefix("file://"))


def put_foreign(table, version: int, *actions: Action, **info) -> bytes:
    """Put a foreign commit into the log, over whatever is there, and return its bytes."""
    told = {"timestamp": 1, "operation": "FOREIGN", "user_name": "mallory", **info}
    payload = serialize_actions([CommitInfo(**told), *actions])
    file = place_of(table) / commit_key(version)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(payload)
    return payload


def a_foreign_file(table, *ids: int, day: str = "a") -> Add:
    """Write rows as a data file of the table and return its add."""
    data: pa.Table = rows(*ids, day=day).drop_columns(["day"])
    name = f"day={day}/foreign-{'-'.join(map(str, ids))}.parquet"
    file = place_of(table) / name
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(data, file)
    stats = {
        "numRecords": len(ids),
        "minValues": {"id": min(ids)},
        "maxValues": {"id": max(ids)},
        "nullCount": {"id": 0},
    }
    return Add(
        path=name,
        partition_values={"day": day},
        size=file.stat().st_size,
        modification_time=1,
        data_change=True,
        stats=json.dumps(stats),
    )
