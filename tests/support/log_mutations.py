"""Logs that are damaged, or made by an enemy; every choice comes from the `Random` given.

A log is a map from the names below a table's root to bytes. Most are damaged in one commit, by
`mutations`; the others in their names, their checkpoints, their hint, or their sheer size.
"""

import io
import json
import random
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltasql.protocol.log_names import LOG_FOLDER, commit_key
from histories import History
from mutations import mutated
from plain_checkpoints import SCHEMA, checkpoint_of, parquet_of

Log = dict[str, bytes]
Mutation = Callable[[random.Random, Log], None]
MEGABYTE = 1024 * 1024
HINT = f"{LOG_FOLDER}_last_checkpoint"
_PATHS = (
    "../../../../etc/passwd",
    "/etc/passwd",
    "file:///etc/passwd",
    "file:/etc/shadow",
    "s3://bucket/x",
    "//host/share",
    "..",
    ".",
    "",
    "/",
    "a/../../b",
    "%2e%2e/%2e%2e/x",
    "p=a%00b",
    "%",
    "%zz",
    "a\\b",
    "a\nb",
    "a\x00b",
    "\u202egpj.exe",
    "x" * 5_000,
    "_delta_log/00000000000000000000.json",
    "'; drop table dl_files; --",
)
_NUMBERS = (-1, -(2**63), 2**63 - 1, 2**63, 2**64, 10**30, 1.5, "7", True, None, [], {})
_LINES = (
    b'{"add":{"path":"n","partitionValues":{},"size":1e400,"dataChange":true}}',
    b'{"txn":{"appId":"a","version":9223372036854775808}}',
    b'{"txn":{"appId":"\\ud800","version":1}}',
    b'{"protocol":{"minReaderVersion":99,"minWriterVersion":99}}',
    b'{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["x"]}}',
    b'{"domainMetadata":{"domain":"d\\u0000","configuration":"","removed":false}}',
    b'{"checkpointMetadata":{"version":1}}',
    b'{"sidecar":{"path":"../x.parquet","sizeInBytes":1,"modificationTime":1}}',
    b'{"add":null}',
    b"{}",
    b"[]",
    b"null",
    b'{"add":{},"remove":{}}',
    b'{"zebra":{"stripes":7}}',
)


def damaged_log(name: str, bases: list[Log], *, heavy: bool = True) -> Log:
    """The log of this name; depends on its name only."""
    chance = random.Random(name)
    taken = chance.randrange(3)
    log = dict(chance.choice(bases)) if bases and taken else made_up_log(chance.randrange(200))
    mutate(chance, log, heavy=heavy)
    return log


def read_log(root: Path) -> Log:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted((root / LOG_FOLDER).rglob("*"))
        if path.is_file()
    }


def write_log(root: Path, log: Log) -> None:
    for name, data in log.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (root / LOG_FOLDER).mkdir(parents=True, exist_ok=True)


def mutate(chance: random.Random, log: Log, *, heavy: bool) -> None:
    """Damage a log once to three times; `heavy` damage takes seconds to make."""
    weighed = _WEIGHED + _HEAVY if heavy else _WEIGHED
    mutations, weights = zip(*weighed, strict=True)
    for _ in range(chance.choice((1, 1, 1, 1, 2, 3))):
        chance.choices(mutations, weights)[0](chance, log)


def made_up_log(seed: int) -> Log:
    """A log of this house's own making, in part with a checkpoint and without its beginning."""
    chance = random.Random(seed)
    history = History(seed, chance.choice((4, 12, 25)), vectors=chance.random() < 0.6)
    log = {commit_key(version): payload for version, payload in enumerate(history.commits)}
    if chance.random() < 0.6:
        at = chance.randrange(1, len(history.commits))
        log[_checkpoint_name(at)] = checkpoint_of(history, at)
        log[HINT] = json.dumps({"version": at, "size": 10}).encode()
        if chance.random() < 0.5:
            for version in range(at if chance.random() < 0.5 else at + 1):
                del log[commit_key(version)]
    return log


def _commits(log: Log) -> list[str]:
    return sorted(key for key in log if key.endswith(".json") and len(key) == len(commit_key(0)))


def _checkpoints(log: Log) -> list[str]:
    return sorted(key for key in log if ".checkpoint" in key)


def _checkpoint_name(version: int) -> str:
    return f"{LOG_FOLDER}{version:020d}.checkpoint.parquet"


def _in_a_commit(chance: random.Random, log: Log) -> None:
    if keys := _commits(log):
        key = chance.choice((chance.choice(keys), keys[-1]))
        log[key] = mutated(chance, log[key])


def _in_the_hint(chance: random.Random, log: Log) -> None:
    hint = log.get(HINT, b'{"version":1,"size":4}')
    odd = (mutated(chance, hint), b"", b"\xff", b'{"version":-1}', b'{"version":1e400,"size":1}')
    log[HINT] = chance.choice((*odd, b"[" * 10_000, b'{"version":9223372036854775808,"size":1}'))


def _bytes_of_a_checkpoint(chance: random.Random, log: Log) -> None:
    if not (keys := _checkpoints(log)):
        return
    key = chance.choice(keys)
    data = bytearray(log[key])
    for _ in range(chance.choice((1, 1, 3, 30))):
        if data:
            # the footer is where the traps are
            near_the_end = max(0, len(data) - chance.choice((8, 200, 10_000)))
            at = chance.randrange(chance.choice((0, near_the_end)), len(data))
            data[at] = chance.choice((data[at] ^ (1 << chance.randrange(8)), 0, 255))
    if chance.random() < 0.2:
        del data[chance.randrange(len(data) + 1) :]
    log[key] = bytes(data)


def _a_row_of_a_checkpoint(chance: random.Random, log: Log) -> None:
    """Change a value, or the rows, of a checkpoint that stays sound Parquet."""
    if not (keys := _checkpoints(log)):
        return
    key = chance.choice(keys)
    try:
        table = pq.read_table(io.BytesIO(log[key]))
        rows = table.to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError):  # it was damaged before
        return
    if not rows:
        return
    row = chance.choice(rows)
    match chance.randrange(4):
        case 0:
            rows.append(row)
        case 1:
            rows.remove(row)
        case 2:
            rows = [{} for _ in rows]
        case _:
            for body in filter(None, row.values()):
                body[chance.choice(sorted(body))] = None
                if "path" in body and chance.random() < 0.7:
                    body["path"] = chance.choice(_PATHS)
    with suppress(pa.ArrowInvalid):  # a column may allow no nulls
        log[key] = parquet_of(pa.Table.from_pylist(rows, schema=table.schema))


def _a_type_of_a_checkpoint(chance: random.Random, log: Log) -> None:
    """Give a column of a checkpoint another type, or leave it out."""
    if not (keys := _checkpoints(log)):
        return
    key = chance.choice(keys)
    try:
        table = pq.read_table(io.BytesIO(log[key]))
    except (pa.ArrowException, OSError):
        return
    if not table.column_names:
        return
    at = chance.randrange(table.num_columns)
    name, column = table.column_names[at], table.column(at)
    if chance.random() < 0.3:
        log[key] = parquet_of(table.drop_columns([name]))
        return
    if not pa.types.is_struct(column.type):
        return
    merged = column.combine_chunks()
    fields = dict(zip((f.name for f in column.type), merged.flatten(), strict=True))
    inner = chance.choice(sorted(fields))
    if chance.random() < 0.3:
        del fields[inner]
    else:
        kinds = (pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.list_(pa.int32()), pa.null())
        kind = chance.choice(kinds)
        value = {pa.string(): "7", pa.int64(): -7, pa.float64(): 1.5, pa.bool_(): True}.get(kind)
        fields[inner] = pa.array([value] * len(merged), kind)
    if not fields:
        return
    made = pa.StructArray.from_arrays(
        list(fields.values()), names=list(fields), mask=merged.is_null()
    )
    with suppress(pa.ArrowInvalid):
        log[key] = parquet_of(table.set_column(at, name, made))


def _bomb(chance: random.Random, log: Log) -> None:
    """A checkpoint of a few kilobytes that unpacks to hundreds of megabytes."""
    version = int(chance.choice(_commits(log) or [commit_key(0)])[-25:-5])
    log[_checkpoint_name(version)] = _bomb_of(chance.choice((0, 1)))
    if chance.random() < 0.5:
        for key in _commits(log):
            if int(key[-25:-5]) <= version:
                del log[key]


@cache
def _bomb_of(kind: int) -> bytes:
    add = {"path": "p", "partitionValues": [("p", "a")], "size": 1, "dataChange": True}
    if kind == 0:
        rows = [{"add": {**add, "stats": "x" * MEGABYTE}} for _ in range(300)]
        return parquet_of(pa.Table.from_pylist(rows, schema=SCHEMA), "zstd")
    many = pa.nulls(3_000_000, SCHEMA.field("add").type)
    return parquet_of(pa.table({"add": many}), "zstd")


def _names(chance: random.Random, log: Log) -> None:
    """Files that go, come twice, change places, or have names that no version has."""
    keys = _commits(log)
    if not keys:
        return
    key = chance.choice(keys)
    match chance.randrange(7):
        case 0:
            del log[key]
        case 1:
            other = chance.choice(keys)
            log[key], log[other] = log[other], log[key]
        case 2:
            log[commit_key(int(keys[-1][-25:-5]) + 1)] = log[key]
        case 3:
            log[key] = b""
        case 4:
            number = chance.choice((2**63 - 1, 2**63, 10**20 - 1, 2**53, 10**9))
            form = chance.choice(("json", "checkpoint.parquet", "crc"))
            log[f"{LOG_FOLDER}{number:020d}.{form}"] = log[key]
        case 5:
            name = chance.choice(("-1.json", "1.json", "\u0661.json", "x" * 200, ".json", "a b"))
            log[LOG_FOLDER + name] = log[key]
        case _:
            last = int(key[-25:-5])
            log[f"{LOG_FOLDER}{0:020d}.{last:020d}.compacted.json"] = b"{"
            log[f"{LOG_FOLDER}{last:020d}.crc"] = chance.choice((b"", b"\xff", b"{}", log[key]))


def _hostile_field(chance: random.Random, log: Log) -> None:
    """A path, a size or a time that an enemy would choose, in an action that is right otherwise."""
    if not (keys := _commits(log)):
        return
    add: dict[str, Any] = {
        "path": "fine.parquet",
        "partitionValues": {"p": "a"},
        "size": 1,
        "modificationTime": 1,
        "dataChange": True,
    }
    name = chance.choice(sorted(add))
    add[name] = chance.choice(_PATHS if name == "path" else _NUMBERS)
    kind = chance.choice(("add", "add", "remove", "cdc"))
    key = chance.choice(keys)
    log[key] += json.dumps({kind: add}).encode() + b"\n"


def _hostile_line(chance: random.Random, log: Log) -> None:
    if keys := _commits(log):
        log[chance.choice(keys)] += chance.choice(_LINES) + b"\n"


def _hundred_megabytes(chance: random.Random, log: Log) -> None:
    """One line of a hundred megabytes."""
    if keys := _commits(log):
        log[chance.choice(keys)] += GIANT_LINES[chance.choice(sorted(GIANT_LINES))]() + b"\n"


_GIANT = 100 * MEGABYTE
_ADD = b'"partitionValues":{"p":"a"},"size":1,"modificationTime":1,"dataChange":true'
GIANT_LINES: dict[str, Callable[[], bytes]] = {
    "text": lambda: b'{"commitInfo":{"userMetadata":"%s"}}' % (b"x" * _GIANT),
    "path": lambda: b'{"add":{"path":"%s",%s}}' % (b"y" * _GIANT, _ADD),
    "stats": lambda: b'{"add":{"path":"s","stats":"%s",%s}}' % (b" " * _GIANT, _ADD),
    "tags": lambda: b'{"add":{"path":"t","tags":{%s"z":""},%s}}' % (_keys(_GIANT // 9), _ADD),
    "escapes": lambda: b'{"commitInfo":{"userName":"%s"}}' % (b"\\u00e9" * (_GIANT // 6)),
    "number": lambda: b'{"add":{"path":"n","size":%s}}' % (b"9" * _GIANT),
    "blanks": lambda: b" " * _GIANT,
    "depth": lambda: b"[" * _GIANT,
    "list": lambda: b'{"zebra":[%s0]}' % (b"0," * (_GIANT // 2)),
    "lists": lambda: b'{"zebra":[%s[]]}' % (b"[]," * (_GIANT // 3)),
    "objects": lambda: b'{"commitInfo":{"unknown":[%s{}]}}' % (b"{}," * (_GIANT // 3)),
    "fields": lambda: b'{"txn":{%s"appId":"a","version":1}}' % _keys(_GIANT // 9),
}


def _keys(count: int) -> bytes:
    return b"".join(b'"%05d":"",' % (number % 100_000) for number in range(count))


_WEIGHED: tuple[tuple[Mutation, int], ...] = (
    (_in_a_commit, 400),
    (_in_the_hint, 30),
    (_bytes_of_a_checkpoint, 120),
    (_a_row_of_a_checkpoint, 60),
    (_a_type_of_a_checkpoint, 60),
    (_names, 80),
    (_hostile_field, 120),
    (_hostile_line, 60),
)
_HEAVY: tuple[tuple[Mutation, int], ...] = ((_bomb, 4), (_hundred_megabytes, 3))
