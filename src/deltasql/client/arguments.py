"""Checks of arguments that Python itself does not make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from deltasql.errors import BadArgumentError


def is_token(value: object) -> TypeGuard[str]:
    """Tell whether a value is a text that both databases can keep as a token."""
    return isinstance(value, str) and bool(value) and "\x00" not in value


def is_whole(value: object) -> TypeGuard[int]:
    """Tell whether a value is a whole number; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def check_version(version: object, name: str = "version") -> None:
    """Refuse what is no version.

    Raises:
        BadArgumentError: names the argument.
    """
    if version is not None and not is_whole(version):
        raise BadArgumentError(f"{name} is {version!r}, not the number of a version.")


def check_filter(where: object, *, is_required: bool = False) -> None:
    """Refuse what is no text of a filter.

    Raises:
        BadArgumentError: says what a filter is.
    """
    if isinstance(where, str) or (where is None and not is_required):
        return
    raise BadArgumentError(
        f"where is {where!r}, not a filter.", hint="Give a text such as \"day = '2026-01-31'\"."
    )


def columns_or_none(columns: object) -> tuple[str, ...] | None:
    """Return a choice of columns as a value; None is all of them.

    Raises:
        BadArgumentError: it is no list of names.
    """
    if columns is None:
        return None
    is_list = isinstance(columns, Sequence) and not isinstance(columns, str | bytes)
    if not is_list or not all(isinstance(name, str) for name in columns):  # type: ignore[attr-defined]
        raise BadArgumentError(
            f"columns is {columns!r}, not a list of names.", hint='Give a list such as ["id"].'
        )
    return tuple(columns)  # type: ignore[arg-type]
