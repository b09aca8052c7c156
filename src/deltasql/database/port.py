"""What the catalog asks of a database: short write transactions, consistent reads, Arrow.

A dialect implements `Database`; everything above it speaks in named queries only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from deltasql.database.named_queries import Queries
from deltasql.errors import CatalogError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a database can do; asked for by capability, never by name."""

    name: str
    has_row_locks: bool
    has_writing_ctes: bool
    # whether those who watch learn of commits only if a writer tells them
    must_tell_commits: bool


@dataclass(frozen=True, slots=True)
class SplitQuery:
    """A query over numbered rows that a database may read in parts, side by side.

    `part` is `whole` limited to the numbers from :low_id up to, not with, :high_id. `state` names
    a query of one row: about the first number, about the last one, and what is the same in all
    states of the database in which this query has the same rows.
    """

    whole: str
    part: str
    state: str
    params: dict[str, Any]


class UniqueViolationError(CatalogError):
    """A row with this key is there already."""

    code = "DS390"
    hint = "This is a contradiction inside deltasql; please report it with the message."


class DbTransaction(Protocol):
    """An open transaction."""

    def fetch_all(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """Run a query and return all its rows."""

    def fetch_later(self, name: str, /, **params: Any) -> Callable[[], list[tuple[Any, ...]]]:
        """Send a query and return how to get its rows; several asked in a row travel together."""

    def execute(self, name: str, /, **params: Any) -> None:
        """Run a statement whose result nobody needs; it may reach the server with the next one."""

    def execute_many(self, name: str, /, columns: dict[str, Sequence[Any]], **shared: Any) -> None:
        """Run a statement for every row of `columns`; `shared` values are the same in all rows."""

    def now_ms(self) -> int:
        """Return the clock that commits are stamped by, in milliseconds."""


class BulkTransaction(Protocol):
    """An open transaction that takes very many rows."""

    def fetch_all(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """Run a query and return all its rows."""

    def execute(self, name: str, /, **params: Any) -> None:
        """Run a statement whose result nobody needs."""

    def stage(self, create: str, rows: pa.Table) -> None:
        """Put rows into a temporary table; the statement `create_<name>` makes one of that name.

        Raises:
            CatalogError: not all of them arrived.
        """

    def insert(self, name: str, rows: pa.Table, *, table_id: str | None = None) -> None:
        """Append rows to a table of the schema, each with the id of its table if that is given.

        Raises:
            UniqueViolationError: a row is there already.
            CatalogError: not all of them arrived.
        """


class BatchRead(Protocol):
    """An open read of one state of the database that gives very many rows as Arrow."""

    def fetch_all(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """Run a query and return all its rows."""

    def batches(
        self, text: str, params: dict[str, Any], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Run a query text and yield its rows in batches; one query at a time."""


class CommitWatch(Protocol):
    """Signs that somebody has committed; hints, of which one may be lost or too many."""

    def heard(self, seconds: float) -> bool:
        """Wait at most so long; tell whether somebody committed since the last call.

        Raises:
            CatalogError: there will be no more signs.
        """

    def close(self) -> None:
        """Let go of what it holds."""


class Database(Protocol):
    """One catalog database."""

    dialect: Dialect
    queries: Queries
    # whether a statement can take the time by itself: the database has a clock and may use it
    has_server_timestamp: bool

    def fetch_all(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """Run one query by itself and return all its rows."""

    def write_once(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """Run one statement as a transaction of its own and return its rows.

        Raises:
            CommitUnknownError: the connection was lost; the statement may be done, or still run.
        """

    def write(self, *, durable: bool = True) -> AbstractContextManager[DbTransaction]:
        """Open a short write transaction; committed on a clean exit, rolled back otherwise.

        Without `durable` a power cut may undo it, though never a part of it: for what can be
        found out again.

        Raises:
            CommitUnknownError: the connection was lost during COMMIT.
        """

    def bulk(self) -> AbstractContextManager[BulkTransaction]:
        """Open a write transaction for very many rows; it may take long and needs memory.

        Raises:
            CommitUnknownError: the connection was lost during COMMIT.
        """

    def read(self) -> AbstractContextManager[DbTransaction]:
        """Open a read that sees one state of the database over all its statements."""

    def arrow(self, text: str, params: dict[str, Any], schema: pa.Schema) -> pa.Table:
        """Run a query text and return its rows as Arrow with this schema."""

    def fetch_arrow_parallel(self, query: SplitQuery, schema: pa.Schema) -> pa.Table:
        """Run a query that may select very many rows, in the way that is fastest for many."""

    def fetch_arrow_small(self, text: str, params: dict[str, Any], schema: pa.Schema) -> pa.Table:
        """Run a query text that selects few rows, in the way that is fastest for few."""

    def arrow_batches(
        self, text: str, params: dict[str, Any], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Run a query text and yield its rows in batches, never all of them in memory."""

    def read_batches(self) -> AbstractContextManager[BatchRead]:
        """Open a read of one state over all its queries, for one thread."""

    def notify_commits(self, table_ids: Sequence[str]) -> None:
        """Give those who watch a sign that these tables have new versions."""

    def watch_commits(self) -> CommitWatch:
        """Watch for commits, on a connection of its own."""

    def login(self) -> str | None:
        """Return the user whom the database has let in; None where it asks nobody."""

    def create_namespace(self) -> None:
        """Make the place that holds the tables, where the database has such a thing."""

    def why_missing(self) -> str:
        """Return a sentence that says what is there, for a database without a catalog."""

    def script(self, text: str, tx: DbTransaction) -> None:
        """Run a migration's statements inside an open transaction."""

    def close(self) -> None:
        """Give all connections back."""
