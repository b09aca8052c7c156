"""A misspelt name and the names there are: which one was meant."""

from __future__ import annotations

from collections.abc import Iterable

from deltasql.errors.catalog import TableNotFoundError

_LIKENESS = 0.75


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like `name`, whatever its case; None if none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 (only an error needs it)

    folded = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), folded, n=1, cutoff=_LIKENESS)
    return folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return the hint for a name that does not exist: the nearest one, then what else to do."""
    meant = nearest(name, known)
    return f"Did you mean {meant}? {otherwise}" if meant else otherwise


def missing_table_error(name: str, names: Iterable[str]) -> TableNotFoundError:
    """Return the error of a name that none of the tables has."""
    hint = did_you_mean(name, names, TableNotFoundError.hint)
    return TableNotFoundError(f"There is no table {name!r} in the catalog.", hint=hint, table=name)
