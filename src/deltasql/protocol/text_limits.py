"""Columns of char(n) and varchar(n): texts to Delta, which notes the type beside the field.

A write must not exceed the length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from deltasql.errors import UnsupportedFeatureError
from deltasql.protocol.schema import StructType

TYPE_TEXT = "__CHAR_VARCHAR_TYPE_STRING"
_LIMITED = re.compile(r"(?:var)?char\((\d+)\)")
# names in backquotes, signs, and names of types with what they have in brackets
_TOKEN = re.compile(r"`(?:[^`]|``)*`|[<>,:]|[^<>,:`(]+(?:\([^)]*\))?")
_STEPS = {"array": ("element",), "map": ("key", "value")}


@dataclass(frozen=True, slots=True)
class TextLimit:
    """How long texts may be at a place: a column, then members, `element`, `key` or `value`."""

    place: tuple[str, ...]
    type: str
    length: int

    @property
    def path(self) -> str:
        """The place in one word."""
        return ".".join(self.place)


def text_limits(schema: StructType) -> list[TextLimit]:
    """Return all limits of a table's texts.

    Raises:
        UnsupportedFeatureError: a type is noted that cannot be understood.
    """
    return list(_of_struct(schema, ()))


def _of_struct(struct: StructType, above: tuple[str, ...]) -> Iterator[TextLimit]:
    for column in struct.fields:
        here = (*above, column.name)
        text = column.metadata.get(TYPE_TEXT)
        if isinstance(text, str):
            yield from _read(text, here)
        if isinstance(column.type, StructType):
            yield from _of_struct(column.type, here)


def _read(text: str, place: tuple[str, ...]) -> Iterator[TextLimit]:
    tokens = _TOKEN.findall(text)
    try:
        found = list(_of_type(tokens, place))
    except IndexError:
        found, tokens = [], [text]
    if tokens or "".join(_TOKEN.findall(text)) != text:
        raise UnsupportedFeatureError(
            f"The column {'.'.join(place)} is noted as {text!r}, which is not understood.",
            column=".".join(place),
        )
    yield from found


def _of_type(tokens: list[str], place: tuple[str, ...]) -> Iterator[TextLimit]:
    """Yield the limits of a type, and take its words away."""
    word = tokens.pop(0).strip()
    limited = _LIMITED.fullmatch(word)
    if limited is not None:
        yield TextLimit(place, word, int(limited[1]))
    if not tokens or tokens[0] != "<":
        return
    steps = list(_STEPS.get(word, ()))
    while tokens.pop(0) != ">":  # what opens, or a comma
        if word == "struct" and tokens[0] == ">":
            continue
        step = _member(tokens) if word == "struct" else steps.pop(0)
        yield from _of_type(tokens, (*place, step))
    if steps:
        raise IndexError


def _member(tokens: list[str]) -> str:
    name, colon = tokens.pop(0), tokens.pop(0)
    if colon != ":":
        raise IndexError
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
