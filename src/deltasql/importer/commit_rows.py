"""Pure: what the book keeps of one imported commit besides its files."""

from __future__ import annotations

from typing import Any

from deltasql.catalog.commit_encode import TRANSACTION_KEY, compress
from deltasql.catalog.found_commit import log_token
from deltasql.importer.commit_files import CommitFile
from deltasql.protocol.actions import Cdc, CommitInfo, DomainMetadata, Metadata, Protocol
from deltasql.protocol.codec import digest, dump_values
from deltasql.protocol.commit_parts import CommitParts

_CHANGING = (Metadata, Protocol, DomainMetadata, Cdc)
_NO_INFO = CommitInfo()
_MOST = 2**63


def version_row(file: CommitFile, payload: bytes, parts: CommitParts) -> tuple[Any, ...]:
    """Return one commit in the columns of VERSION_SCHEMA."""
    adds, removes, others = parts.adds, parts.removes, parts.others
    info = next((a for a in others if type(a) is CommitInfo), _NO_INFO)
    found = digest(payload)
    return (
        file.version,
        file.modified_ms,
        _text(info.user_name),
        _text(info.operation) or "UNKNOWN",
        dump_values(info.operation_parameters) if info.operation_parameters else "{}",
        dump_values(info.operation_metrics) if info.operation_metrics else "{}",
        info.in_commit_timestamp,
        _number(info.read_version),
        _is_blind(info, parts),
        _text(info.txn_id) or log_token(file.version, found),
        _transaction(info),
        len(adds),
        len(removes),
        len(adds) + len(removes) + len(others),
        _total([add.size for add in adds]),
        _total([remove.size or 0 for remove in removes]),
        _text(info.user_metadata),
        compress(payload),
        len(payload),
        found,
    )


def _total(sizes: list[int]) -> int:
    """Return a sum as far as a database can count."""
    return max(-_MOST, min(sum(sizes), _MOST - 1))


def _is_blind(info: CommitInfo, parts: CommitParts) -> bool:
    if isinstance(info.is_blind_append, bool):
        return info.is_blind_append
    return not parts.removes and not any(isinstance(one, _CHANGING) for one in parts.others)


def _transaction(info: CommitInfo) -> str | None:
    found = (info.extra or {}).get(TRANSACTION_KEY)
    return found if isinstance(found, str) else None


def _text(value: Any) -> str | None:
    """No database keeps a NUL; what a commit tells of itself is free in form."""
    if value is None:
        return None
    text = value if isinstance(value, str) else dump_values(value)
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _number(value: Any) -> int | None:
    return value if type(value) is int and -_MOST <= value < _MOST else None
