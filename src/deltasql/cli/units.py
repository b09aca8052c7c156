"""Sizes, times and counts as people read them."""

from __future__ import annotations

_THOUSAND = 1000
_MINUTE, _HOUR = 60, 3600
_FEW = 10


def size_text(count: float) -> str:
    """Return a number of bytes, such as 12.3 MB."""
    value = float(count)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if value < _THOUSAND or unit == "TB":
            return f"{value:.0f} bytes" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= _THOUSAND
    raise AssertionError("unreachable")


def count_text(count: int, noun: str) -> str:
    """Return a number with its noun, such as 1 version or 1,000 versions."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def clock_text(seconds: float) -> str:
    """Return a length of time as a clock shows it, such as 0:01:05."""
    whole = max(0, round(seconds))
    return f"{whole // _HOUR}:{whole % _HOUR // _MINUTE:02d}:{whole % _MINUTE:02d}"


def time_text(seconds: float) -> str:
    """Return a length of time in words, such as 5 minutes."""
    if seconds < _FEW:
        return f"{seconds:.1f} seconds"
    if seconds < 2 * _MINUTE:
        return f"{round(seconds)} seconds"
    if seconds < 2 * _HOUR:
        return f"{round(seconds / _MINUTE)} minutes"
    return f"{seconds / _HOUR:.1f} hours"
