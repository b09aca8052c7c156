"""Ways in which a commit file gets damaged; every choice comes from the `Random` given."""

import json
import random
from collections import deque
from collections.abc import Callable
from typing import Any

Mutation = Callable[[random.Random, bytes], bytes]

_ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.0,
    0.5,
    2**63,
    -(2**63) - 1,
    2**200,
    1e300,
    "",
    "null",
    "100",
    "\x00",
    "..",
    "/etc/passwd",
    "'; drop table dl_tables; --",
    [],
    {},
    [1],
    {"a": None},
    {"day": 1},
    [[[[]]]],
)
_ODD_BYTES = (
    b"\x00",
    b"\xff",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"\n",
    b"\n\n \t\n",
    b"\\ud800",
    b"\\udc00\\ud800",
    b"\\u0000",
    b"\\u00e9",
    b"1e400",
    b"-1e400",
    b"NaN",
    b"Infinity",
    b'"',
    b"{",
    b"}",
    b"[",
    b",",
    b":",
    b"//",
    b"9" * 400,
)


def mutated(chance: random.Random, payload: bytes) -> bytes:
    """Return the payload after one to three mutations."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        payload = chance.choices(_MUTATIONS, _WEIGHTS)[0](chance, payload)
    return payload


def _flip(chance: random.Random, payload: bytes) -> bytes:
    if not payload:
        return payload
    at = chance.randrange(len(payload))
    return payload[:at] + bytes([payload[at] ^ (1 << chance.randrange(8))]) + payload[at + 1 :]


def _truncate(chance: random.Random, payload: bytes) -> bytes:
    return payload[: chance.randrange(len(payload) + 1)]


def _insert(chance: random.Random, payload: bytes) -> bytes:
    at = chance.choice((0, len(payload), chance.randrange(len(payload) + 1)))
    return payload[:at] + chance.choice(_ODD_BYTES) + payload[at:]


def _delete(chance: random.Random, payload: bytes) -> bytes:
    at = chance.randrange(len(payload) + 1)
    return payload[:at] + payload[at + chance.randrange(1, 20) :]


def _shuffle_lines(chance: random.Random, payload: bytes) -> bytes:
    lines = payload.splitlines(keepends=True)
    chance.shuffle(lines)
    return b"".join(lines)


def _repeat_line(chance: random.Random, payload: bytes) -> bytes:
    lines = payload.splitlines(keepends=True)
    return payload + chance.choice(lines) if lines else payload


def _windows_lines(chance: random.Random, payload: bytes) -> bytes:
    return payload.replace(b"\n", b"\r\n")


def _no_newline_at_the_end(chance: random.Random, payload: bytes) -> bytes:
    return payload.rstrip(b"\n")


def _change_value(chance: random.Random, payload: bytes) -> bytes:
    """Put an odd value in the place of a right one, or a new key beside it."""

    def change(holder: dict[str, Any], key: str) -> None:
        holder[chance.choice((key, key, key, "unknown", "~extra"))] = chance.choice(_ODD_VALUES)

    return _edit(chance, payload, change)


def _drop_key(chance: random.Random, payload: bytes) -> bytes:
    return _edit(chance, payload, lambda holder, key: holder.pop(key))


def _spell_number(chance: random.Random, payload: bytes) -> bytes:
    """Spell a number as a text or a float, as some writers do."""

    def change(holder: dict[str, Any], key: str) -> None:
        if isinstance(holder[key], int):
            holder[key] = chance.choice((str(holder[key]), float(holder[key])))

    return _edit(chance, payload, change)


def _double_key(chance: random.Random, payload: bytes) -> bytes:
    line = _pick_line(chance, payload)
    value = json.dumps(chance.choice(_ODD_VALUES)).encode()
    key = chance.choice((b'"path":', b'"size":', b'"version":', b'"add":', b'"timestamp":'))
    return payload.replace(line, line.replace(key, key + value + b"," + key, 1), 1)


def _nest(chance: random.Random, payload: bytes) -> bytes:
    depth = chance.choice((10, 90, 100, 110, 300, 700, 990, 1_100, 10_000))
    opened, closed = chance.choice(((b"[", b"]"), (b'{"a":', b"}")))
    deep = opened * depth + b"1" + closed * depth
    kind = chance.choice((b"commitInfo", b"add", b"zebra", b"metaData"))
    key = chance.choice((b"unknown", b"operationParameters", b"tags", b"format"))
    return payload + b'{"%s":{"%s":%s}}\n' % (kind, key, deep)


def _long_line(chance: random.Random, payload: bytes) -> bytes:
    length = chance.choice((70_000, 1_000_000))
    fill = chance.choice((b"x", b"/a", b"%2e", b"\xc3\xa9", b" "))
    name = fill * (length // len(fill))
    return payload + (
        b'{"add":{"path":"%s","partitionValues":{"day":"a"},"size":1,'
        b'"modificationTime":1,"dataChange":true}}\n' % name
    )


def _pick_line(chance: random.Random, payload: bytes) -> bytes:
    return chance.choice(payload.splitlines() or [b""])


def _edit(
    chance: random.Random, payload: bytes, change: Callable[[dict[str, Any], str], Any]
) -> bytes:
    """Change one key, at any depth, of one line; a line that is no JSON stays as it is."""
    line = _pick_line(chance, payload)
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return payload
    holders = _objects(value)
    if not holders:
        return payload
    holder = chance.choice(holders)
    change(holder, chance.choice(sorted(holder)))
    text = json.dumps(value, ensure_ascii=chance.random() < 0.5)
    return payload.replace(line, text.encode("utf-8", "surrogatepass"), 1)


def _objects(value: Any) -> list[dict[str, Any]]:
    """All objects in the value that hold something, the outermost first."""
    found: list[dict[str, Any]] = []
    todo = deque([value])
    while todo:
        one = todo.popleft()
        if isinstance(one, dict):
            found += [one] if one else []
            todo += one.values()
        elif isinstance(one, list):
            todo += one
    return found


_WEIGHED: tuple[tuple[Mutation, int], ...] = (
    (_flip, 12),
    (_truncate, 4),
    (_insert, 10),
    (_delete, 6),
    (_shuffle_lines, 4),
    (_repeat_line, 3),
    (_windows_lines, 2),
    (_no_newline_at_the_end, 2),
    (_change_value, 25),
    (_drop_key, 8),
    (_spell_number, 8),
    (_double_key, 5),
    (_nest, 5),
    (_long_line, 1),
)
_MUTATIONS = [mutation for mutation, _ in _WEIGHED]
_WEIGHTS = [weight for _, weight in _WEIGHED]
