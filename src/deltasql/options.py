"""One reader for every mapping of options: names in any spelling, values as text or as themselves.

A kind of options is a `msgspec.Struct`; its fields say the names and the types. Delta spells names
in camel case and Spark hands over texts, Python callers write snake case and give values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from deltasql.errors import BadArgumentError

Kind = TypeVar("Kind", bound=msgspec.Struct)

_WORDS = {bool: "true or false", int: "a whole number", str: "a text", Mapping: "a mapping"}


def read_options(
    kind: type[Kind], given: Mapping[str, Any], who: str, *, also_known: Sequence[str] = ()
) -> Kind:
    """Return the options of a kind; None means not given.

    `who` is the subject of the errors, such as "A write". `also_known` are names that somebody else
    reads, for the hint.

    Raises:
        BadArgumentError: a name is unknown or given twice, or a value does not fit.
    """
    types = get_type_hints(kind)
    names = {fold(name): name for name in kind.__struct_fields__}
    values: dict[str, Any] = {}
    for key, raw in given.items():
        name = names.get(fold(key))
        if name is None:
            raise _unknown_error(key, who, list(names.values()), also_known)
        if raw is None:
            continue
        value = _convert(raw, types[name], key)
        if values.setdefault(name, value) != value:
            raise BadArgumentError(f"The option {key} is given twice, with two values.")
    return kind(**values)


def fold(key: str) -> str:
    """Return a name without case and underscores: equal for all of its spellings."""
    return key.replace("_", "").lower()


def camel(name: str) -> str:
    """Return a name as Delta spells it."""
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def _convert(raw: Any, wanted: Any, key: str) -> Any:
    kind = _without_none(wanted)
    origin = get_origin(kind)
    if origin is Literal and isinstance(raw, str):
        raw = raw.lower()
    if origin is tuple and isinstance(raw, str):
        raw = (raw,)
    if kind is str and (not isinstance(raw, str) or not raw):
        raise BadArgumentError(f"The option {key} is a text, not {raw!r}.")
    if kind is bool and isinstance(raw, str):
        raw = {"true": True, "false": False}.get(raw.lower(), raw)
    try:
        if kind is int and isinstance(raw, str):
            raw = int(raw)
        return msgspec.convert(raw, kind, strict=kind is not float)
    except (msgspec.ValidationError, ValueError) as error:
        raise _value_error(raw, kind, key) from error


def _without_none(wanted: Any) -> Any:
    """Return the type of an option that may be left out."""
    kinds = [kind for kind in get_args(wanted) if kind is not type(None)]
    is_optional = type(None) in get_args(wanted)
    return kinds[0] if is_optional and len(kinds) == 1 else wanted


def _value_error(raw: Any, kind: Any, key: str) -> BadArgumentError:
    if get_origin(kind) is Literal:
        known = ", ".join(map(str, get_args(kind)))
        return BadArgumentError(
            f"The option {key} cannot be {raw!r}.", hint=f"It is one of: {known}."
        )
    words = _WORDS.get(get_origin(kind) or kind, "a list of names")
    return BadArgumentError(f"The option {key} is {words}, not {raw!r}.")


def _unknown_error(
    key: str, who: str, known: Sequence[str], also_known: Sequence[str]
) -> BadArgumentError:
    from difflib import get_close_matches  # noqa: PLC0415 (only an error needs it)

    spelled = [name if "_" in key else camel(name) for name in known]
    every = {fold(name): name for name in (*spelled, *also_known)}
    near = get_close_matches(fold(key), every, 1)
    hint = f"Did you mean {every[near[0]]}?" if near else f"Options are: {', '.join(spelled)}."
    return BadArgumentError(f"{who} has no option {key!r}.", hint=hint)
