"""Named SQL from the .sql files, with the bound names of each query found once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
# A bound time, or the bound hexadecimal text of a hash, in the type of its column.
_TYPED = re.compile(r"\{(time|hash):(\w+)\}")
_PARAM = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)(?P<array>(?=::\w+\[\]))?")
# The statements that both dialects run as they are, beside the code that runs them.
_COMMON = (
    "metastore/sql/queries.sql",
    "mirror/mirror.sql",
    "imports/imports.sql",
    "maintenance/maintenance.sql",
)


@dataclass(frozen=True, slots=True)
class Query:
    """One statement in a dialect's own spelling, and the names it binds, in order."""

    text: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Queries:
    """All named statements of one dialect."""

    sources: Mapping[str, str]
    placeholder: str
    array_placeholder: str
    blob_placeholder: str
    constants: Mapping[str, str]
    _compiled: dict[tuple[str, tuple[tuple[str, str], ...]], Query] = field(default_factory=dict)

    def get(self, name: str, **parts: str) -> Query:
        """Return the statement `name`, with `{part}` places filled by SQL fragments."""
        key = (name, tuple(sorted(parts.items())))
        found = self._compiled.get(key)
        if found is None:
            found = self.compile(self.text(name, **parts))
            self._compiled[key] = found
        return found

    def text(self, name: str, **parts: str) -> str:
        """Return the text of `name` before its bound names are spelled for the driver."""
        text = self.sources[name]
        for part, value in (*parts.items(), *self.constants.items()):
            text = text.replace("{" + part + "}", value)
        return _TYPED.sub(lambda found: self.constants[f"{found[1]}:"].format(f":{found[2]}"), text)

    def compile(self, text: str) -> Query:
        """Spell the bound names of a statement the way the driver wants them."""
        names: list[str] = []

        def spell(match: re.Match[str]) -> str:
            name = match[1]
            if name not in names:
                names.append(name)
            spelling = self.placeholder if match["array"] is None else self.array_placeholder
            if name == "payload":
                spelling = self.blob_placeholder
            return spelling.format(name=name)

        return Query(_PARAM.sub(spell, text), tuple(names))


@cache
def load_queries(dialect: str) -> Mapping[str, str]:
    """Return the statements of a dialect: the common ones, with its own in their place."""
    found: dict[str, str] = {}
    for name in (*_COMMON, f"metastore/sql/{dialect}.sql"):
        found |= _split((files("deltasql") / name).read_text(encoding="utf-8"))
    return found


def split_statements(text: str) -> list[str]:
    """Return the statements of a script; what stands between `$$` is not split."""
    outside = text.split("$$")
    found = [""]
    for number, part in enumerate(outside):
        if number % 2:
            found[-1] += f"$${part}$$"
            continue
        first, *others = part.split(";\n")
        found[-1] += first
        found += others
    return [statement for statement in found if _squeezed(statement)]


def _split(text: str) -> dict[str, str]:
    parts = _NAME.split(text)
    return dict(zip(parts[1::2], map(_squeezed, parts[2::2]), strict=True))


def _squeezed(body: str) -> str:
    """Drop comments and indents: drivers keep only short statements ready."""
    lines = (line.strip() for line in body.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("--"))
