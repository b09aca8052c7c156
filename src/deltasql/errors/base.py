"""The base of all errors: a message, a code, an exit code, a hint, the facts for machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

_LONGEST = 1000


class DeltaSqlError(Exception):
    """Base of all deltasql errors."""

    code: ClassVar[str] = "DS000"
    retryable: ClassVar[bool] = False
    hint: ClassVar[str] = ""
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str = "", /, *, hint: str | None = None, **context: object) -> None:
        super().__init__(_one_line(message or (type(self).__doc__ or "").splitlines()[0]))
        self.context = context
        self.advice = self.hint if hint is None else hint
        self.add_note(f"[{self.code}] hint: {self.advice}" if self.advice else f"[{self.code}]")

    @property
    def message(self) -> str:
        """What is wrong, in one sentence."""
        return str(self.args[0])

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling between processes with context and advice intact."""
        return _rebuild, (type(self), self.message, self.advice, self.context)


def is_passing(told: str | None) -> bool:
    """Tell whether `CODE: message` is of an error that trying again may help."""
    code = (told or "").partition(":")[0]
    return any(kind.code == code and kind.retryable for kind in _kinds(DeltaSqlError))


def _kinds(kind: type[DeltaSqlError]) -> Iterator[type[DeltaSqlError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


def _one_line(text: str) -> str:
    """Return a message as one printable line: the path or name in it may come from a hostile log.

    Unprinted characters are escaped, so that no text moves a terminal or fakes a line of a log
    file; of a very long text both ends are told.
    """
    if not text.isprintable():
        text = "".join(
            each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
        )
    half = _LONGEST // 2 - 2
    return text if len(text) <= _LONGEST else f"{text[:half]} … {text[-half:]}"


def _rebuild(
    kind: type[DeltaSqlError], message: str, advice: str, context: dict[str, object]
) -> DeltaSqlError:
    return kind(message, hint=advice, **context)
