"""Our errors on their way through Spark, which keeps nothing of them but their text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from deltasql.errors import DeltaSqlError


@contextmanager
def told_with_code() -> Iterator[None]:
    """Put an error's code before its words and its hint after them."""
    try:
        yield
    except DeltaSqlError as error:
        hint = f" hint: {error.advice}" if error.advice else ""
        raise type(error)(
            f"error[{error.code}]: {error.message}{hint}", hint="", **error.context
        ) from None
