"""PostgreSQL: rows and transactions through psycopg, Arrow through ADBC, signs of commits by
LISTEN.

Writes run READ COMMITTED with the row lock taken by a statement of its own; all that follows the
lock is pipelined with COMMIT, so a commit costs two round trips.

How a worker hears of commits on PostgreSQL: writers NOTIFY, it LISTENs. A sign is a hint and
nothing more: one that is lost costs the time until the next poll, one too many costs a look; see
docs/decisions/0014.
"""

from __future__ import annotations

import hashlib
import logging
import select
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import adbc_driver_postgresql
import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.abc import Buffer
from psycopg.conninfo import make_conninfo
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.string import TextLoader

from deltasql.database.adbc import POSTGRES_WORDS, AdbcConnection
from deltasql.database.named_queries import Queries, load_queries, split_statements
from deltasql.database.pool import Pool, weakly
from deltasql.database.port import BatchRead, BulkTransaction, DbTransaction, Dialect, SplitQuery
from deltasql.database.postgres_arrow import (
    ArrayDumper,
    PostgresBatchRead,
    bulk_transaction,
    reading,
    stream,
    with_literals,
)
from deltasql.database.postgres_errors import (
    explained,
    hidden_interrupt,
    mapped,
    require_own_session,
    server_process,
)
from deltasql.errors import (
    CatalogError,
    CatalogUnavailableError,
    CommitUnknownError,
    PermissionDeniedError,
)

_PREFIX = "deltasql_"

# PostgreSQL's longest name; a longer channel is refused.
_LONGEST = 63

DIALECT = Dialect(
    name="postgres",
    has_row_locks=True,
    has_writing_ctes=True,
    must_tell_commits=True,
)
_READING = "begin isolation level repeatable read read only"
_SERVER_CLOCK = "(extract(epoch from clock_timestamp()) * 1000)::bigint"
_CHUNK_ROWS = 10_000
_PREPARED = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def channel_of(schema: str) -> str:
    """Return the channel of the catalog in a schema; every database has channels of its own."""
    name = f"{_PREFIX}{schema}"
    if len(name.encode()) <= _LONGEST:
        return name
    return f"{_PREFIX}{hashlib.sha256(schema.encode()).hexdigest()[:32]}"


class PostgresWatch:
    """Listens on the catalog's channel, on a connection of its own."""

    def __init__(self, conninfo: str, channel: str) -> None:
        with mapped():
            self._connection = psycopg.connect(conninfo, autocommit=True)
            try:
                self._connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
            except BaseException:
                self._connection.close()
                raise

    def heard(self, seconds: float) -> bool:
        """Wait at most so long; tell whether somebody committed since the last call."""
        with mapped():
            signs = len(list(self._connection.notifies(timeout=seconds, stop_after=1)))
            if signs:  # what else has come asks for the same look
                signs += len(list(self._connection.notifies(timeout=0)))
            return signs > 0

    def close(self) -> None:
        """Let go of the connection."""
        with suppress(psycopg.Error):
            self._connection.close()


# The host decides what is logged; without a handler Python would print the driver's warnings.
logging.getLogger("psycopg").addHandler(logging.NullHandler())


class MillisLoader(TimestamptzLoader):
    """Reads a timestamp as what the catalog counts in: milliseconds since 1970 in UTC."""

    def load(self, data: Buffer) -> int:  # type: ignore[override]
        """Return the milliseconds."""
        return (super().load(data) - _EPOCH) // _MILLISECOND


class PostgresDatabase:
    """A catalog in one schema of a PostgreSQL database."""

    dialect = DIALECT

    def __init__(
        self, conninfo: str, schema: str, *, clock: Callable[[], int] | None = None
    ) -> None:
        self.schema = schema
        # whatever the role, the database or the environment say: bytes of commits are UTF-8
        self._conninfo = make_conninfo(conninfo, client_encoding="UTF8")
        self._clock = clock
        self._keeps_sessions = False
        self.has_server_timestamp = clock is None
        now = _SERVER_CLOCK if clock is None else "0::bigint"
        sources = load_queries("postgres")
        words = {"table_columns": sources["table_columns"], "now": now}
        words |= {"false": "false", "true": "true"} | POSTGRES_WORDS
        self.queries = Queries(
            sources,
            "%({name})s",
            "%({name})t",  # written by ArrayDumper
            "%({name})b",
            words,
        )
        # by weak references: the finalizers below hold the pools, and a pool must not hold us
        self._pool = Pool(weakly(self._connect), _is_alive)
        self._arrow_pool = Pool(weakly(self._connect_arrow), AdbcConnection.is_idle)
        # A catalog that nobody closed is closed before the interpreter takes the driver away.
        weakref.finalize(self, self._pool.close)
        weakref.finalize(self, self._arrow_pool.close)

    def fetch_all(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """Run one query by itself, in one round trip."""
        query = self.queries.get(name).text.encode()
        with self._mapped(), self._pool.connection() as connection:
            return connection.execute(query, params).fetchall()

    def write_once(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """Run one statement as a transaction of its own, in one round trip."""
        query = self.queries.get(name).text.encode()
        handled = sys.exception()
        with self._mapped(), self._pool.connection() as connection:
            try:
                return connection.execute(query, params).fetchall()
            except psycopg.Error as error:
                if connection.closed and hidden_interrupt(error, handled) is None:
                    raise CommitUnknownError(
                        "The connection to the catalog was lost during a commit."
                    ) from error
                raise

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[DbTransaction]:
        """Open a write transaction in a pipeline; row locks are its `lock_table`."""
        with self._transaction("begin isolation level read committed") as tx:
            if not durable:
                tx.connection.execute("set local synchronous_commit = off")
            yield tx

    @contextmanager
    def bulk(self) -> Iterator[BulkTransaction]:
        """Open a write transaction on a connection that takes Arrow."""
        with ExitStack() as stack:
            try:
                tx = stack.enter_context(self._writing(fresh=False))
            except CatalogUnavailableError:
                # This driver does not tell that an idle connection has died; nothing was asked yet.
                tx = stack.enter_context(self._writing(fresh=True))
            yield tx

    @contextmanager
    def _writing(self, *, fresh: bool) -> Iterator[BulkTransaction]:
        with (
            self._mapped(),
            self._arrow_pool.connection(fresh=fresh) as connection,
            bulk_transaction(connection, self.queries, self.schema) as tx,
        ):
            yield tx

    @contextmanager
    def read(self) -> Iterator[DbTransaction]:
        """Open a read of one state of the primary."""
        with self._transaction(_READING, writes=False) as tx:
            yield tx

    def arrow(self, text: str, params: dict[str, Any], schema: pa.Schema) -> pa.Table:
        """Return the rows of a query as one Arrow table."""
        return pa.Table.from_batches(self.arrow_batches(text, params, schema), schema)

    def fetch_arrow_parallel(self, query: SplitQuery, schema: pa.Schema) -> pa.Table:
        """Return the rows of a query as one Arrow table, read as a whole."""
        return self.arrow(query.whole, query.params, schema)

    def arrow_batches(
        self, text: str, params: dict[str, Any], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query in batches."""
        statement = with_literals(self.queries.compile(text).text, params)
        started = False
        try:
            for batch in self._batches(statement, fresh=False):
                started = True
                yield batch.cast(schema) if batch.schema != schema else batch
        except CatalogUnavailableError:
            if started:
                raise
            # This driver does not tell that an idle connection has died; nothing is lost yet.
            for batch in self._batches(statement, fresh=True):
                yield batch.cast(schema) if batch.schema != schema else batch

    def _batches(self, statement: str, *, fresh: bool) -> Iterator[pa.RecordBatch]:
        with self._arrow_pool.connection(fresh=fresh) as connection:
            yield from stream(connection, statement, self._mapped)

    @contextmanager
    def read_batches(self) -> Iterator[BatchRead]:
        """Open a read of one state of the primary that gives Arrow."""
        with ExitStack() as stack:
            try:
                connection = stack.enter_context(self._reading(fresh=False))
            except CatalogUnavailableError:
                # This driver does not tell that an idle connection has died.
                connection = stack.enter_context(self._reading(fresh=True))
            yield PostgresBatchRead(connection, self.queries, self._mapped)

    @contextmanager
    def _reading(self, *, fresh: bool) -> Iterator[AdbcConnection]:
        with (
            self._arrow_pool.connection(fresh=fresh) as connection,
            reading(connection, self._mapped),
        ):
            yield connection

    def fetch_arrow_small(self, text: str, params: dict[str, Any], schema: pa.Schema) -> pa.Table:
        """Return the rows of a query that selects few; saves opening the driver for many."""
        query = self.queries.compile(text).text.encode()
        with self._mapped(), self._pool.connection() as connection:
            found = connection.execute(query, params).fetchall()
        columns = list(zip(*found, strict=True)) or [()] * len(schema)
        arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    def notify_commits(self, table_ids: Sequence[str]) -> None:
        """Notify whoever listens; never inside a commit, which this would serialise."""
        self.fetch_all("notify_commits", channel=channel_of(self.schema), table_ids=list(table_ids))

    def watch_commits(self) -> PostgresWatch:
        """Listen for commits."""
        return PostgresWatch(self._conninfo, channel_of(self.schema))

    def login(self) -> str:
        """Return the role that logged in."""
        with self._mapped(), self._pool.connection() as connection:
            return connection.info.user

    def create_namespace(self) -> None:
        """Create the schema that the URI names; needs the right to do so only if it is missing."""
        there = "select 1 from pg_catalog.pg_namespace where nspname = %s"
        create = sql.SQL("create schema if not exists {}").format(sql.Identifier(self.schema))
        with self._mapped(), self._pool.connection() as connection:
            if not connection.execute(there, [self.schema]).fetchall():
                with suppress(psycopg.errors.UniqueViolation):  # somebody else was first
                    connection.execute(create)

    def why_missing(self) -> str:
        """Say what is there instead of a catalog."""
        has_schema = self.fetch_all("has_namespace", schema=self.schema)[0][0]
        reason = "has no deltasql tables" if has_schema else "does not exist in this database"
        return f"There is no catalog in schema {self.schema}: the schema {reason}."

    def script(self, text: str, tx: DbTransaction) -> None:
        """Run the statements of a migration one by one."""
        assert isinstance(tx, _PostgresTransaction)  # noqa: S101 (our own transaction)
        for statement in split_statements(text):
            tx.connection.execute(statement.encode())
        # ALTER makes psycopg forget its prepared statements in the midst of a pipeline, where it
        # then deallocates new ones: this connection is not used again.
        tx.is_last = True

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()
        self._arrow_pool.close()

    @contextmanager
    def _transaction(self, begin: str, *, writes: bool = True) -> Iterator[_PostgresTransaction]:
        handled = sys.exception()
        with self._mapped(), self._pool.connection() as connection:
            tx = _PostgresTransaction(connection, self.queries, self._clock)
            committing = False
            try:
                with connection.pipeline() as pipeline:
                    connection.execute(begin.encode())
                    try:
                        yield tx
                    except BaseException as error:
                        # Take in what the server still has to say, so that the pipeline ends well.
                        with _ignored_errors(error):
                            pipeline.sync()
                        raise
                    committing = True
                    done = connection.execute("commit")
            except BaseException as error:
                if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                    connection.close()  # a standby: another connection may find the primary
                _roll_back(connection, error)
                is_lost = connection.closed and isinstance(error, psycopg.Error)
                if writes and committing and is_lost and hidden_interrupt(error, handled) is None:
                    raise CommitUnknownError(
                        "The connection to the catalog was lost during COMMIT."
                    ) from error
                raise
            if tx.is_last:
                connection.close()
            if done.statusmessage != "COMMIT":
                raise CatalogError(f"The database ended a commit with {done.statusmessage}.")

    def _connect(self) -> psycopg.Connection[Any]:
        with self._mapped():
            connection = self._open()
            connection.prepared_max = _PREPARED
            connection.adapters.register_dumper(list, ArrayDumper)
            connection.adapters.register_loader("uuid", TextLoader)
            connection.adapters.register_loader("timestamptz", MillisLoader)
            found = self._prepare_session(connection, connection.info.backend_pid)
            if not found:
                # a pooler stands between; without a check its sessions must not get our settings
                try:
                    process = self._server_process(connection)
                except BaseException:
                    connection.close()
                    raise
                found = self._prepare_session(connection, process)
        *_, role, may_use = found[0]
        if may_use is False:  # the server would pass over the schema, as if it held nothing
            connection.close()
            raise PermissionDeniedError(
                f"Role {role!r} may not use the schema {self.schema}.",
                hint=f"The role lacks USAGE on it. {PermissionDeniedError.hint}",
                role=role,
            )
        return connection

    def _server_process(self, connection: psycopg.Connection[Any]) -> int:
        """Return the server process behind a pooler, which is checked once."""
        if self._keeps_sessions:
            return server_process(connection)
        process = require_own_session(connection, self._open)
        self._keeps_sessions = True
        return process

    def _open(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=0)

    def _prepare_session(
        self, connection: psycopg.Connection[Any], process: int
    ) -> list[tuple[Any, ...]]:
        """Set what our statements rely on, if it is this server process that answers."""
        return connection.execute(
            "select set_config('search_path', %s, false), set_config('timezone', 'UTC', false),"
            " set_config('lock_timeout', '60s', false),"
            # behind the row lock every statement must see what the lock waited for
            " set_config('default_transaction_isolation', 'read committed', false),"
            # no statement of ours is planned better for its values, and planning costs time
            " set_config('plan_cache_mode', 'force_generic_plan', false), current_user::text,"
            " (select pg_catalog.has_schema_privilege(n.oid, 'USAGE')"
            " from pg_catalog.pg_namespace n where n.nspname = %s)"
            " where pg_backend_pid() = %s",
            [sql.Identifier(self.schema).as_string(None), self.schema, process],
            prepare=False,
        ).fetchall()

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        """Turn the drivers' errors into ours; one about rights names the role and what it lacks."""
        try:
            with mapped():
                yield
        except PermissionDeniedError as error:
            if "role" in error.context:
                raise
            raise self._explained(error) from error.__cause__

    def _explained(self, error: PermissionDeniedError) -> PermissionDeniedError:
        query = self.queries.get("lacking_rights").text.encode()
        given = {"relation": error.context.get("relation")}
        try:
            with mapped(), self._pool.connection() as connection:
                ((role, lacking),) = connection.execute(query, given).fetchall()
        except CatalogError:
            return error
        return explained(error, role, lacking)

    def _connect_arrow(self) -> AdbcConnection:
        place = sql.SQL("set search_path to {}").format(sql.Identifier(self.schema))
        with self._mapped():
            connection = AdbcConnection(adbc_driver_postgresql.connect(self._conninfo))
            connection.execute(place.as_string(None))
        return connection


class _PostgresTransaction:
    """An open PostgreSQL transaction; statements are queued until a result is asked for."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        queries: Queries,
        clock: Callable[[], int] | None,
    ) -> None:
        self.connection = connection
        self.is_last = False
        self._queries = queries
        self._clock = clock

    def fetch_all(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        return self.fetch_later(name, **params)()

    def fetch_later(self, name: str, /, **params: Any) -> Callable[[], list[tuple[Any, ...]]]:
        return self.connection.execute(self._queries.get(name).text.encode(), params).fetchall

    def execute(self, name: str, /, **params: Any) -> None:
        self.connection.execute(self._queries.get(name).text.encode(), params)

    def execute_many(self, name: str, /, columns: dict[str, Sequence[Any]], **shared: Any) -> None:
        count = len(next(iter(columns.values())))
        for start in range(0, count, _CHUNK_ROWS):
            part = {
                key: list(column[start : start + _CHUNK_ROWS]) for key, column in columns.items()
            }
            self.execute(name, **part, **shared)

    def now_ms(self) -> int:
        if self._clock is not None:
            return self._clock()
        return int(self.connection.execute(f"select {_SERVER_CLOCK}".encode()).fetchall()[0][0])


def _is_idle(connection: psycopg.Connection[Any]) -> bool:
    """Tell whether a connection is outside of any transaction, as an interrupt may not leave it."""
    return connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE


def _is_alive(connection: psycopg.Connection[Any]) -> bool:
    """Tell whether an idle connection can be used; a server that went away has said so by now.

    An idle connection has nothing to read: what is there is the server's farewell or the end.
    """
    if not _is_idle(connection):
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


def _roll_back(connection: psycopg.Connection[Any], error: BaseException) -> None:
    """End the transaction if the connection still lives; a dead one is thrown away by the pool.

    An interrupt may leave the connection inside of a pipeline that the driver believes to have
    ended: then nothing is ever answered on it.
    """
    if connection.closed:
        return
    if not isinstance(error, Exception) or connection.info.pipeline_status:
        connection.close()
        return
    with _ignored_errors(error):
        try:
            connection.execute("rollback")
        except psycopg.Error:
            connection.close()
            raise


@contextmanager
def _ignored_errors(handled: BaseException) -> Iterator[None]:
    """Ignore errors of the driver while another one is handled, but not an interrupt."""
    try:
        yield
    except psycopg.Error as error:
        interrupt = hidden_interrupt(error, handled)
        if interrupt is not None:
            raise interrupt from None
