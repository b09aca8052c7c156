"""Lists as PostgreSQL reads them in text: `{1,2,NULL}`.

The driver's own dumper looks at every value to find the narrowest type of its array. That takes
longer than all else that a commit does in Python, and a statement is planned anew for each
combination of types that occurs. Here the statement says the type, by a cast behind the parameter.
"""

from __future__ import annotations

from typing import Any

from psycopg import DataError
from psycopg.adapt import Dumper
from psycopg.pq import Format


class ArrayDumper(Dumper):
    """Writes a list of numbers, truth values or texts; bytes go as the driver's binary arrays."""

    format = Format.TEXT
    oid = 0  # the statement says it

    def dump(self, obj: list[Any]) -> bytes:
        """Return the array as text."""
        text = "{" + ",".join(map(_element, obj)) + "}"
        if "\0" in text:  # the driver would end the text there
            raise DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
        return text.encode()


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, int):
        return int.__repr__(value)  # of a truth value 0 or 1
    if isinstance(value, float):
        return float.__repr__(value)
    raise TypeError(f"An array of a statement cannot hold a value of type {type(value).__name__}.")
