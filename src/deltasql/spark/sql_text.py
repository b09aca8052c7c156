"""The text of a statement as Spark reads it: variables replaced, and names exchanged in place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Span: TypeAlias = tuple[int, int]
_PARSER = "org.apache.spark.sql.catalyst.parser"
_BLANKS = re.compile(r"\s+|--.*|/\*.*", re.DOTALL)


@contextmanager
def active_session(spark: SparkSession) -> Iterator[None]:
    """Let a session's settings count in what is asked of Spark's own parts meanwhile."""
    jvm: Any = spark._jvm  # noqa: SLF001 (the parser has no other door)
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)  # noqa: SLF001
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def with_variables(spark: SparkSession, text: str) -> str:
    """Return a statement with its `${variables}` replaced, as Spark replaces them before it parses.

    The places that the parser tells are those of this text.
    """
    jvm: Any = spark._jvm  # noqa: SLF001
    return str(jvm.org.apache.spark.sql.internal.VariableSubstitution().substitute(text))


def qualifier_spans(
    spark: SparkSession, text: str, names: Iterable[tuple[str, ...]], taken: Sequence[Span]
) -> Mapping[Span, tuple[str, ...]]:
    """Return where columns are qualified by one of these names, as in `namespace.table.column`."""
    wanted = {tuple(part.lower() for part in parts): parts for parts in names}
    tokens = [(span, _plain(text[slice(*span)])) for span in _tokens(spark, text)]
    found: dict[Span, tuple[str, ...]] = {}
    for folded, parts in wanted.items():
        pattern = [word for part in folded for word in (part, ".")]
        for at in range(len(tokens) - len(pattern)):
            seen = [word for _, word in tokens[at : at + len(pattern)]]
            is_inside = at > 0 and tokens[at - 1][1] == "."
            span = (tokens[at][0][0], tokens[at + len(pattern) - 2][0][1])
            if seen == pattern and not is_inside and not _overlaps(span, taken):
                found[span] = parts
    return found


def exchanged(text: str, places: Mapping[Span, str]) -> str:
    """Return a text with other words in some places; from the end, so that the others stay."""
    for (start, stop), word in sorted(places.items(), reverse=True):
        text = f"{text[:start]}{word}{text[stop:]}"
    return text


def _tokens(spark: SparkSession, text: str) -> Iterator[Span]:
    """Yield the places of Spark's own tokens, blanks and comments left out."""
    jvm: Any = spark._jvm  # noqa: SLF001
    parser = jvm
    for each in _PARSER.split("."):
        parser = getattr(parser, each)
    characters = jvm.org.antlr.v4.runtime.CharStreams.fromString(text)
    for token in parser.SqlBaseLexer(parser.UpperCaseCharStream(characters)).getAllTokens():
        start, stop = token.getStartIndex(), token.getStopIndex() + 1
        if not _BLANKS.fullmatch(text[start:stop]):
            yield start, stop


def _plain(word: str) -> str:
    """Return an identifier without its quotes, in small letters."""
    quoted = len(word) > 1 and word[0] == word[-1] == "`"
    return (word[1:-1].replace("``", "`") if quoted else word).lower()


def _overlaps(span: Span, taken: Sequence[Span]) -> bool:
    return any(start < span[1] and span[0] < stop for start, stop in taken)
