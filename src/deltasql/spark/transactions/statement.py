"""What a statement is and which tables it names, by Spark's own parser and analyzer.

Only statements that a transaction can take back are let through. The parser's tree is read
through Py4J: the nodes, the queries inside their expressions, and the few relations that are no
children of their node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from deltasql.errors import BadArgumentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Span: TypeAlias = tuple[int, int]
_PARSER = "org.apache.spark.sql.catalyst.parser"
_BLANKS = re.compile(r"\s+|--.*|/\*.*", re.DOTALL)

_WRITES = frozenset(
    {
        "DeleteFromTable",
        "DeltaReorgTable",
        "InsertIntoStatement",
        "MergeIntoTable",
        "OverwriteByExpression",
        "OverwritePartitionsDynamic",
        "UpdateTable",
    }
)
_ALTERS = frozenset(
    {
        "AddColumns",
        "AlterColumns",
        "AlterTableAddConstraint",
        "AlterTableClusterBy",
        "AlterTableDropConstraint",
        "DropColumns",
        "RenameColumn",
        "SetTableProperties",
        "UnsetTableProperties",
    }
)
_OPTIMIZE = "OptimizeTableCommand"

# a list of what is allowed: commands of Delta's parser do not all say that they are commands
_QUERIES = frozenset(
    {
        "Aggregate",
        "Distinct",
        "Except",
        "Filter",
        "Generate",
        "GlobalLimit",
        "Intersect",
        "Join",
        "LocalLimit",
        "LocalRelation",
        "Offset",
        "OneRowRelation",
        "Pivot",
        "Project",
        "RepartitionByExpression",
        "Sample",
        "Sort",
        "SubqueryAlias",
        "Union",
        "UnresolvedHaving",
        "UnresolvedHint",
        "UnresolvedInlineTable",
        "UnresolvedRelation",
        "UnresolvedSubqueryColumnAliases",
        "Unpivot",
        "WithWindowDefinition",
    }
)
_ALLOWED = _WRITES | _ALTERS | _QUERIES | {_OPTIMIZE}

# their table is no child of theirs
_TABLE_ASIDE = frozenset(
    {"InsertIntoStatement", "OverwriteByExpression", "OverwritePartitionsDynamic"}
)
_TIME_TRAVEL = frozenset({"RelationTimeTravel", "TimeTravel"})

# identifier(...) with anything but a literal; in Spark 4.1 with a literal too
_OPEN_NAME = "PlanWithUnresolvedIdentifier"
_PRIVILEGES = "__required_write_privileges__"

_FILES, _TABLE = "LogicalRelation", "DataSourceV2Relation"
_FILE_RELATION = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"


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


@dataclass(frozen=True, slots=True)
class Named:
    """A relation that a statement names; `span` is where, if the parser tells."""

    parts: tuple[str, ...]
    is_target: bool
    is_of_the_past: bool
    span: tuple[int, int] | None

    @property
    def text(self) -> str:
        """The name as people write it."""
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed statement."""

    text: str
    kind: str
    names: tuple[Named, ...]

    @property
    def is_query(self) -> bool:
        """Tell whether it only reads."""
        return not any(name.is_target for name in self.names)

    @property
    def only_moves_rows(self) -> bool:
        """Tell whether it leaves the rows of its table as they are, in other files."""
        return self.kind == _OPTIMIZE


def parse_statement(spark: SparkSession, text: str) -> Statement:
    """Return what a statement is and what it names.

    Raises:
        BadArgumentError: it is none that a transaction can take back.
    """
    session: Any = spark._jsparkSession  # noqa: SLF001 (the parser has no other door)
    with active_session(spark):
        text = with_variables(spark, text)
        tree = session.sessionState().sqlParser().parsePlan(text)
    root = tree.child() if _kind(tree) == "UnresolvedWith" else tree
    if _kind(root) == _OPEN_NAME:
        root = _LiteralName.of(root, session).plan
    kind = _kind(root)
    if kind not in _ALLOWED:
        raise BadArgumentError(
            f"A transaction cannot run {text.strip().split()[0].upper()} ({kind}).",
            hint="It runs queries, MERGE, UPDATE, DELETE, INSERT, OPTIMIZE and changes of a "
            "table's columns, constraints and properties.",
        )
    # a query inside an expression is found twice where a node counts it among its own
    return Statement(text, kind, tuple(dict.fromkeys(_names(tree, session))))


def walk(tree: Any) -> Iterator[tuple[Any, str]]:
    """Yield all nodes of a plan with what they are, those of queries in expressions too."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node, _kind(node)
        waiting += _below(node, _kind(node))


def _names(tree: Any, session: Any) -> Iterator[Named]:
    waiting: list[tuple[Any, bool, _LiteralName | None]] = [(tree, False, None)]
    while waiting:
        node, is_past, literal = waiting.pop()
        kind = _kind(node)
        if kind in {"UnresolvedRelation", "UnresolvedTable", "UnresolvedTableOrView"}:
            named = _named(node, kind, is_past=is_past)
            yield named if literal is None else literal.placed(named)
        elif kind == _OPEN_NAME:
            inner = _LiteralName.of(node, session)
            waiting.append((inner.plan, is_past, inner))
            continue
        elif kind == "UnresolvedTableValuedFunction":
            _refuse_change_feed(node)
        waiting += [(each, False, literal) for each in _below(node, kind)]
        if kind in _TIME_TRAVEL:
            waiting.append((node.relation(), True, literal))


@dataclass(frozen=True, slots=True)
class _LiteralName:
    """identifier('name'), which the parser of Spark 4.1 leaves open, and the plan that it means."""

    plan: Any
    parts: tuple[str, ...]
    span: tuple[int, int] | None

    @classmethod
    def of(cls, node: Any, session: Any) -> _LiteralName:
        """Read a name that is left open.

        Raises:
            BadArgumentError: it is computed.
        """
        name = node.identifierExpr()
        if _kind(name) != "Literal":
            raise BadArgumentError(
                "A transaction cannot know which table identifier(...) names: it is computed.",
                hint="Write the name itself, or identifier('name').",
            )
        parts = session.sessionState().sqlParser().parseMultipartIdentifier(str(name.value()))
        quoted = _span(name)
        inside = None if quoted is None else (quoted[0] + 1, quoted[1] - 1)
        return cls(node.planBuilder().apply(parts, node.children()), _texts(parts), inside)

    def placed(self, named: Named) -> Named:
        """Return the name with its place inside of the quotes: its plan has none of its own."""
        is_this = named.span is None and named.parts == self.parts
        return replace(named, span=self.span) if is_this else named


def _below(node: Any, kind: str) -> Iterator[Any]:
    for found in (node.children(), node.innerChildren(), node.subqueries()):
        for number in range(found.length()):
            yield found.apply(number)
    if kind in _TABLE_ASIDE:
        yield node.table()


def _named(node: Any, kind: str, *, is_past: bool) -> Named:
    parts = node.multipartIdentifier()
    is_target = kind != "UnresolvedRelation" or node.options().containsKey(_PRIVILEGES)
    return Named(
        _texts(parts),
        bool(is_target),
        is_past,
        _span(node),
    )


def _texts(parts: Any) -> tuple[str, ...]:
    return tuple(str(parts.apply(number)) for number in range(parts.length()))


def _span(node: Any) -> tuple[int, int] | None:
    start, stop = node.origin().startIndex(), node.origin().stopIndex()
    return (start.get(), stop.get() + 1) if start.isDefined() and stop.isDefined() else None


def _refuse_change_feed(node: Any) -> None:
    name = node.name()
    if str(name.apply(name.length() - 1)).lower().startswith("table_changes"):
        raise BadArgumentError(
            "A transaction cannot read a change feed.",
            hint="Read it before the transaction and give its rows as a temporary view.",
        )


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def places_of(spark: SparkSession, parts: tuple[str, ...]) -> Iterator[str]:
    """Yield the directories and files that a persistent table or view reads, through views too."""
    name = ".".join("`" + part.replace("`", "``") + "`" for part in parts)
    if not spark.catalog.tableExists(name):
        return
    plan = spark.table(name)._jdf.queryExecution().analyzed()  # noqa: SLF001 (no other way)
    for node, kind in walk(plan):
        if kind == _FILES:
            yield from _file_places(spark, node.relation())
        elif kind == _TABLE:
            place = node.table().properties().get("location")
            if place is not None:
                yield str(place)


def _file_places(spark: SparkSession, relation: Any) -> Iterator[str]:
    from py4j.java_gateway import is_instance_of  # noqa: PLC0415 (loads only with Spark)

    gateway = spark.sparkContext._gateway  # noqa: SLF001
    if not is_instance_of(gateway, relation, _FILE_RELATION):  # Delta's is a kind of it
        return
    places = relation.location().rootPaths()
    for number in range(places.length()):
        yield str(places.apply(number).toUri().toString())
