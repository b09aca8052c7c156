"""The names of a catalog's tables inside Spark, pinned at one version for a transaction.

The staged tables are registered in private databases of Spark's own catalog, one for each
namespace, which end with the transaction. A statement runs in a copy of the user's session that
uses the database of tables without a namespace: temporary views, settings and SQL variables are
those of the user's session at that moment, its current database and other threads notice nothing,
and column names qualified by a table's name work as always. A name with a namespace is replaced
where it stands by that of the private database, also where it qualifies a column. A temporary view
that is called like a table of the catalog is refused, because nobody could tell which is meant; one
that `attach` made of that table is not.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deltasql.errors import BadArgumentError, BadUriError
from deltasql.metastore.table_row import TableRow
from deltasql.spark.read.read_marks import attached_table
from deltasql.spark.transactions.statement import (
    Named,
    Statement,
    active_session,
    exchanged,
    qualifier_spans,
)
from deltasql.storage.resolve import location_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# what Spark's own catalog lets into a name
_WORD = re.compile(r"[A-Za-z0-9_]+")


@dataclass(slots=True)
class Names:
    """The private databases of one transaction."""

    spark: SparkSession
    prefix: str
    catalog_id: str
    _databases: dict[str, str] = field(default_factory=dict)
    _registered: dict[tuple[str, str], str] = field(default_factory=dict)

    def register(self, row: TableRow, path: str) -> None:
        """Give a staged table the name that its table has in the catalog.

        Raises:
            BadArgumentError: Spark cannot spell the name, or tells it from no other.
        """
        if _WORD.fullmatch(row.name) is None:
            raise BadArgumentError(
                f"Spark's SQL cannot name the table {row.full_name}: letters, digits and _ only.",
                hint="Use tx.table(...) and tx.path(...) with DataFrames.",
                table=row.full_name,
            )
        key = (row.namespace, row.name.lower())
        other = self._registered.setdefault(key, row.full_name)
        if other != row.full_name:
            raise BadArgumentError(
                f"Spark cannot tell the tables {other} and {row.full_name} apart.",
                table=row.full_name,
            )
        database = self._database(row.namespace, path)
        self.spark.sql(
            f"CREATE TABLE IF NOT EXISTS {database}.`{row.name}` USING delta LOCATION {_text(path)}"
        )

    def run(self, statement: Statement, staged: Iterable[tuple[Named, TableRow]]) -> DataFrame:
        """Run a statement with the names of staged tables bound to them."""
        ours = list(staged)
        text = self._bound_text(statement.text, ours)
        session = self._copied_session()
        bound = {named.parts for named, _ in ours}
        for parts in bound:
            # a view that `attach` made would be found before the staged table
            if len(parts) == 1 and self.is_view(parts[0]):
                session.catalog.dropTempView(parts[0])
        self._show_others(session, [n for n in statement.names if n.parts not in bound])
        if "" in self._databases:
            session.sql(f"USE {self._databases['']}")
        return session.sql(text)

    def _bound_text(self, text: str, ours: Sequence[tuple[Named, TableRow]]) -> str:
        """Return a statement with names that have a namespace replaced by private ones."""
        places = {named.parts: self._place(row) for named, row in ours}
        private = {parts: place for parts, place in places.items() if place is not None}
        if not private:
            return text
        spans = {
            _span(text, named): private[named.parts] for named, _ in ours if named.parts in private
        }
        columns = qualifier_spans(self.spark, text, private, list(spans))
        return exchanged(text, spans | {span: private[parts] for span, parts in columns.items()})

    def end(self) -> None:
        """Drop the private databases; the staged files stay."""
        for database in self._databases.values():
            self.spark.sql(f"DROP DATABASE IF EXISTS {database} CASCADE")
        self._databases.clear()

    def is_view(self, name: str) -> bool:
        """Tell whether the user's session has a temporary view of that name."""
        catalog: Any = self.spark._jsparkSession.sessionState().catalog()  # noqa: SLF001
        return bool(catalog.getTempView(name).isDefined())

    def attached_table(self, name: str) -> str | None:
        """Return the table of this catalog that a temporary view was made of by `attach`."""
        found = attached_table(self.spark, name)
        return None if found is None or found.catalog_id != self.catalog_id else found.table

    def is_view_of_another(self, name: str, table: str) -> bool:
        """Tell whether there is such a view, and `attach` has not made it of this table."""
        return self.is_view(name) and self.attached_table(name) != table

    def _place(self, row: TableRow) -> str | None:
        """Return what to write in a name's place; without a namespace it may stay."""
        return f"{self._databases[row.namespace]}.`{row.name}`" if row.namespace else None

    def _database(self, namespace: str, path: str) -> str:
        if namespace not in self._databases:
            name = f"spark_catalog.{self.prefix}_{len(self._databases)}"
            # below the staged folder: Spark's warehouse may be a place we must not write to
            self.spark.sql(f"CREATE DATABASE {name} LOCATION {_text(f'{path}/_names')}")
            self._databases[namespace] = name
        return self._databases[namespace]

    def _copied_session(self) -> SparkSession:
        from pyspark.sql import SparkSession  # noqa: PLC0415 (loads only with Spark)

        own: Any = self.spark._jsparkSession  # noqa: SLF001 (Python has none)
        copied = own.cloneSession()
        _copy_variables(own, copied)
        with active_session(self.spark):  # Python makes a session the active one
            return SparkSession(self.spark.sparkContext, copied)

    def _show_others(self, session: SparkSession, names: Iterable[Named]) -> None:
        """Let names of the user's current database mean the same in the copied session."""
        database = self.spark.catalog.currentDatabase()
        for name in {named.parts[0] for named in names if len(named.parts) == 1}:
            if not self.is_view(name) and self.spark.catalog.tableExists(f"{database}.`{name}`"):
                session.sql(
                    f"CREATE OR REPLACE TEMPORARY VIEW `{name}` AS "
                    f"SELECT * FROM `{database}`.`{name}`"
                )


def _span(text: str, named: Named) -> tuple[int, int]:
    """Return where a name stands; Delta's own statements, which do not tell, name one table."""
    if named.span is not None:
        return named.span
    parts = r"\s*\.\s*".join(f"`?{re.escape(part)}`?" for part in named.parts)
    found = re.search(rf"(?<![\w`]){parts}(?![\w`])", text, re.IGNORECASE)
    if found is None:
        raise BadArgumentError(f"The name {named.text} cannot be found in the statement.")
    return found.span()


def _copy_variables(own: Any, copied: Any) -> None:
    """Let the session's SQL variables count in its copy, which Spark makes without them."""
    mine, theirs = (
        one.sessionState().catalogManager().tempVariableManager() for one in (own, copied)
    )
    variables = mine.getClass().getDeclaredField("variables")
    variables.setAccessible(True)
    variables.get(theirs).addAll(variables.get(mine))


def _text(path: str) -> str:
    return "'" + path.replace("\\", "\\\\").replace("'", "\\'") + "'"


@dataclass(frozen=True, slots=True)
class PinnedTables:
    """All tables of a catalog at one moment."""

    by_name: Mapping[str, TableRow]
    by_lower_name: Mapping[str, Sequence[TableRow]]

    @classmethod
    def of(cls, rows: Sequence[TableRow]) -> PinnedTables:
        """Return the tables of these rows."""
        lower: dict[str, list[TableRow]] = {}
        for row in rows:
            lower.setdefault(row.full_name.lower(), []).append(row)
        return cls({row.full_name: row for row in rows}, lower)

    def find(self, name: str) -> TableRow | None:
        """Return a table by its name, or by the same letters, small or capital, if it is alone."""
        if name in self.by_name:
            return self.by_name[name]
        alike = self.by_lower_name.get(name.lower(), ())
        return alike[0] if len(alike) == 1 else None

    def refuse_stranger(self, named: Named, staged_paths: Container[str]) -> None:
        """Refuse what is no table of the catalog where it would escape the transaction.

        Raises:
            BadArgumentError: it would be written to, or is a table of ours behind our back.
        """
        is_path = len(named.parts) == 2 and named.parts[0].lower() == "delta"  # noqa: PLR2004
        if is_path and named.parts[1] in staged_paths:
            return
        if named.is_target:
            raise BadArgumentError(
                f"{named.text} is no table of the catalog: what is written to it could not be "
                "taken back.",
                hint="List the tables with `deltasql tables`.",
            )
        ours = self._at(named.parts[1]) if is_path else None
        if ours is not None:
            raise BadArgumentError(
                f"The path {named.parts[1]} is that of the table {ours.full_name}.",
                hint="Name the table: its log may be behind the catalog.",
            )

    def refuse_table_behind(self, named: Named, places: Iterable[str]) -> None:
        """Refuse a table or view of Spark's own catalog that reads a table of ours from its log.

        Raises:
            BadArgumentError: one of the places is a table's root: its log may be behind the
                catalog, and what the transaction wrote would not be seen.
        """
        for place in places:
            ours = self._at(place)
            if ours is not None:
                raise BadArgumentError(
                    f"{named.text} of Spark's own catalog reads the table {ours.full_name}, not "
                    "what the transaction sees.",
                    hint=f"Name the table: {ours.full_name}.",
                    table=ours.full_name,
                )

    def _at(self, path: str) -> TableRow | None:
        try:
            key = location_key(path)
        except BadUriError:
            return None
        return next((row for row in self.by_name.values() if row.location_key == key), None)
