"""What a statement is and which tables it names, by Spark's own parser.

Only statements that a transaction can take back are let through. The parser's tree is read
through Py4J: the nodes, the queries inside their expressions, and the few relations that are no
children of their node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltasql.errors import BadArgumentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
_PRIVILEGES = "__required_write_privileges__"


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
    tree = session.sessionState().sqlParser().parsePlan(text)
    root = tree.child() if _kind(tree) == "UnresolvedWith" else tree
    kind = _kind(root)
    if kind not in _ALLOWED:
        raise BadArgumentError(
            f"A transaction cannot run {text.strip().split()[0].upper()} ({kind}).",
            hint="It runs queries, MERGE, UPDATE, DELETE, INSERT, OPTIMIZE and changes of a "
            "table's columns, constraints and properties.",
        )
    # a query inside an expression is found twice where a node counts it among its own
    return Statement(text, kind, tuple(dict.fromkeys(_names(tree))))


def walk(tree: Any) -> Iterator[tuple[Any, str]]:
    """Yield all nodes of a plan with what they are, those of queries in expressions too."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node, _kind(node)
        waiting += _below(node, _kind(node))


def _names(tree: Any) -> Iterator[Named]:
    waiting = [(tree, False)]
    while waiting:
        node, is_past = waiting.pop()
        kind = _kind(node)
        if kind in {"UnresolvedRelation", "UnresolvedTable", "UnresolvedTableOrView"}:
            yield _named(node, kind, is_past=is_past)
        elif kind == "UnresolvedTableValuedFunction":
            _refuse_change_feed(node)
        waiting += [(each, False) for each in _below(node, kind)]
        if kind in _TIME_TRAVEL:
            waiting.append((node.relation(), True))


def _below(node: Any, kind: str) -> Iterator[Any]:
    for found in (node.children(), node.innerChildren(), node.subqueries()):
        for number in range(found.length()):
            yield found.apply(number)
    if kind in _TABLE_ASIDE:
        yield node.table()


def _named(node: Any, kind: str, *, is_past: bool) -> Named:
    parts = node.multipartIdentifier()
    is_target = kind != "UnresolvedRelation" or node.options().containsKey(_PRIVILEGES)
    start, stop = node.origin().startIndex(), node.origin().stopIndex()
    known = start.isDefined() and stop.isDefined()
    return Named(
        tuple(str(parts.apply(number)) for number in range(parts.length())),
        bool(is_target),
        is_past,
        (start.get(), stop.get() + 1) if known else None,
    )


def _refuse_change_feed(node: Any) -> None:
    name = node.name()
    if str(name.apply(name.length() - 1)).lower().startswith("table_changes"):
        raise BadArgumentError(
            "A transaction cannot read a change feed.",
            hint="Read it before the transaction and give its rows as a temporary view.",
        )


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())
