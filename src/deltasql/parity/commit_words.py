"""A commit in a few words: who did what, and how much of it; for people who must decide."""

from __future__ import annotations

from collections.abc import Sequence

from deltasql.errors import MalformedActionError
from deltasql.protocol.actions import (
    Action,
    Add,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Txn,
)
from deltasql.protocol.codec import decode_commit, digest
from deltasql.protocol.stats import parse_stats

_LONGEST_WORD = 60


def describe_commit(payload: bytes, version: int) -> str:
    """Return what a commit does, in a line; bytes that are no commit are told as such."""
    mark = digest(payload)[:12]
    try:
        actions = decode_commit(payload, version=version, lenient=True)
    except MalformedActionError as error:
        return f"{mark} is no commit (line {error.context.get('line')})"
    info = next((a for a in actions if isinstance(a, CommitInfo)), CommitInfo())
    operation = _word(info.operation) or "no operation"
    who = _word(info.user_name) or _word(info.engine_info)
    parts = [f"{operation} by {who}" if who else operation, *_counts(actions)]
    return f"{mark} {', '.join(parts)}"


def _counts(actions: Sequence[Action]) -> list[str]:
    adds = [action for action in actions if isinstance(action, Add)]
    removes = [action for action in actions if isinstance(action, Remove)]
    counts = [f"{len(adds)} added" + _rows(adds), f"{len(removes)} removed"]
    names = {Metadata: "metadata", Protocol: "protocol", DomainMetadata: "domain", Txn: "txn"}
    return counts + [name for kind, name in names.items() if any(type(a) is kind for a in actions)]


def _rows(adds: Sequence[Add]) -> str:
    stats = [parse_stats(add.stats) for add in adds]
    counts = [found.num_records if found else None for found in stats]
    if not adds or any(count is None for count in counts):
        return ""
    return f" ({sum(count or 0 for count in counts)} rows)"


def _word(value: object) -> str:
    """A log may hold anything: a word is short and printable."""
    if not isinstance(value, str):
        return ""
    kept = "".join(each for each in value if each.isprintable())
    return kept if len(kept) <= _LONGEST_WORD else f"{kept[:_LONGEST_WORD]}…"
