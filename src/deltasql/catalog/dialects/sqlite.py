"""SQLite through ADBC, and through nothing else.

ADBC carries its own SQLite library. A second library in the same process (the standard library's)
would cancel the first one's POSIX locks on the file and lose acknowledged commits, so every access
goes through this module; see docs/decisions/0001.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import adbc_driver_manager
import adbc_driver_sqlite.dbapi as adbc
import pyarrow as pa

from deltasql.catalog.database import Dialect, UniqueViolationError, Work
from deltasql.catalog.queries import TABLE_COLUMNS, Queries, Query, load_queries
from deltasql.errors import CatalogError, CatalogUnavailableError, ConfigError

DIALECT = Dialect(
    name="sqlite",
    has_row_locks=False,
    ends_files_in_one_statement=False,
    has_server_clock=False,
)
_BUSY_MS = 30_000
_ATTEMPTS = 4
_NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afs"}


class SqliteDatabase:
    """A catalog in one SQLite file, in WAL mode with full durability."""

    dialect = DIALECT

    def __init__(
        self, path: Path, *, must_exist: bool = True, clock: Callable[[], int] | None = None
    ) -> None:
        self.path = path
        self._clock = clock or _wall_clock
        self._pool = _Pool(path)
        # A catalog that nobody closed is closed before the interpreter takes the driver away.
        weakref.finalize(self, self._pool.close)
        self.queries = Queries(
            load_queries("sqlite"),
            "?{number}",
            "?{number}",
            {"table_columns": TABLE_COLUMNS, "now": "0", "false": "0", "true": "1"},
        )
        if must_exist and not path.exists():
            raise CatalogUnavailableError(
                f"There is no catalog database at {path}.",
                hint="Create it with `deltasql db init`, or check the path in the URI.",
            )
        _refuse_network_file_system(path)
        with self._connection():
            pass

    @contextmanager
    def write(self) -> Iterator[Work]:
        """Open a write transaction; it holds the file's one write lock from its first statement."""
        with self._connection() as connection:
            connection.execute("begin immediate")
            work = _SqliteWork(connection, self.queries, self._clock)
            try:
                yield work
            except BaseException:
                connection.execute("rollback")
                raise
            connection.commit()

    @contextmanager
    def read(self) -> Iterator[Work]:
        """Open a read of one state; it never stops a writer."""
        with self._connection() as connection:
            connection.execute("begin")
            try:
                yield _SqliteWork(connection, self.queries, self._clock)
            finally:
                connection.execute("rollback")

    def arrow(self, text: str, params: dict[str, Any], schema: pa.Schema) -> pa.Table:
        """Return the rows of a query as one Arrow table."""
        return pa.Table.from_batches(self.arrow_batches(text, params, schema), schema)

    def arrow_batches(
        self, text: str, params: dict[str, Any], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query in batches.

        The driver types a column by its first batch, so a typed row goes first and is cut off.
        """
        typed = ", ".join(f"{_TYPED[kind]} as {name}" for name, kind in _names(schema))
        query = self.queries.compile(f"select {typed} union all select * from ({text})")
        with self._connection() as connection:
            first = True
            for batch in connection.batches(query, params):
                rows = batch.slice(1) if first else batch
                first = False
                yield pa.RecordBatch.from_arrays(
                    [_cast(rows.column(i), field.type) for i, field in enumerate(schema)],
                    schema=schema,
                )

    def create_namespace(self) -> None:
        """Do nothing: the file is the place."""

    def script(self, text: str, work: Work) -> None:
        """Run the statements of a migration one by one."""
        assert isinstance(work, _SqliteWork)  # noqa: S101 (our own transaction by construction)
        for statement in text.split(";\n"):
            if _has_code(statement):
                work.connection.execute(statement)

    def close(self) -> None:
        """Close all idle connections; a connection in use closes when it is given back."""
        self._pool.close()

    @contextmanager
    def _connection(self) -> Iterator[_Connection]:
        connection = self._pool.take()
        try:
            yield connection
        finally:
            self._pool.give_back(connection)


class _Pool:
    """Idle connections; each is used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._idle: list[_Connection] = []
        self._closed = False

    def take(self) -> _Connection:
        with self._lock:
            if self._closed:
                raise CatalogError("The catalog is closed.", hint="Open it again with connect().")
            connection = self._idle.pop() if self._idle else None
        return connection or _Connection(self._path)

    def give_back(self, connection: _Connection) -> None:
        with self._lock:
            if not self._closed and not connection.broken:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


class _SqliteWork:
    """An open SQLite transaction."""

    def __init__(self, connection: _Connection, queries: Queries, clock: Callable[[], int]) -> None:
        self.connection = connection
        self._queries = queries
        self._clock = clock

    def rows(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        query = self._queries.get(name)
        return self.connection.execute(query.text, [params[key] for key in query.names])

    def ask(self, name: str, /, **params: Any) -> Callable[[], list[tuple[Any, ...]]]:
        found = self.rows(name, **params)
        return lambda: found

    def run(self, name: str, /, **params: Any) -> None:
        self.rows(name, **params)

    def run_many(self, name: str, /, columns: dict[str, Sequence[Any]], **shared: Any) -> None:
        query = self._queries.get(name)
        count = len(next(iter(columns.values())))
        values = [columns[key] if key in columns else [shared[key]] * count for key in query.names]
        self.connection.execute_many(query.text, values)

    def now_ms(self) -> int:
        return self._clock()


class _Connection:
    """One ADBC connection with a cursor, so a prepared statement, kept per statement text."""

    def __init__(self, path: Path) -> None:
        self.broken = False
        with _mapped():
            self._raw = adbc.connect(str(path), autocommit=True)
        self._cursors: dict[str, Any] = {}
        self.execute(f"pragma busy_timeout = {_BUSY_MS}")
        mode = self.execute("pragma journal_mode = wal")
        if mode[0][0] != "wal":
            self.close()
            raise ConfigError(
                f"The catalog at {path} cannot use write-ahead logging (mode {mode[0][0]}).",
                hint="Put the database file on a local disk.",
            )
        self.execute("pragma synchronous = full")
        self.execute("pragma foreign_keys = on")

    def execute(self, text: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        cursor = self._cursor(text)
        with _mapped():
            cursor.execute(text, [_plain(value) for value in values] if values else None)
            rows: list[tuple[Any, ...]] = cursor.fetchall() if cursor.description else []
        return rows

    def execute_many(self, text: str, columns: Sequence[Sequence[Any]]) -> None:
        arrays = [_array(column) for column in columns]
        names = [str(number) for number in range(len(arrays))]
        with _mapped():
            self._cursor(text).executemany(text, pa.RecordBatch.from_arrays(arrays, names))

    def commit(self) -> None:
        """Commit; a busy database is tried again, any other failure rolls back."""
        for attempt in range(_ATTEMPTS):
            try:
                self.execute("commit")
            except CatalogUnavailableError:
                if attempt == _ATTEMPTS - 1:
                    self.execute("rollback")
                    raise
            except BaseException:
                self.broken = True
                raise
            else:
                return

    def batches(self, query: Query, params: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        cursor = self._raw.cursor()
        try:
            with _mapped():
                cursor.execute(query.text, [params[key] for key in query.names] or None)
                reader = cursor.fetch_record_batch()
            while True:
                with _mapped():
                    batch = next(reader, None)
                if batch is None:
                    return
                yield batch
        finally:
            cursor.close()

    def close(self) -> None:
        for cursor in self._cursors.values():
            cursor.close()
        self._cursors.clear()
        self._raw.close()

    def _cursor(self, text: str) -> Any:
        cursor = self._cursors.get(text)
        if cursor is None:
            cursor = self._cursors[text] = self._raw.cursor()
        return cursor


@contextmanager
def _mapped() -> Iterator[None]:
    """Turn the driver's errors into ours; SQLite's messages are not localised."""
    try:
        yield
    except adbc_driver_manager.IntegrityError as error:
        raise UniqueViolationError(f"The catalog refused a row: {error}.") from error
    except adbc_driver_manager.Error as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            raise CatalogUnavailableError(
                "The catalog database is locked by another program.",
                hint="Another process holds the database; try again when it is done.",
            ) from error
        if "disk I/O error" in text or "full" in text or "readonly" in text:
            raise CatalogUnavailableError(
                f"The catalog database cannot be written: {text}."
            ) from error
        if "not a database" in text or "malformed" in text:
            raise CatalogError(f"The file is not a usable SQLite database: {text}.") from error
        raise CatalogError(f"The catalog database refused a statement: {text}.") from error


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


def _array(column: Sequence[Any]) -> pa.Array:
    """Return an Arrow array of a type SQLite can bind, also when every value is null."""
    sample = next((value for value in column if value is not None), None)
    match sample:
        case bool():
            return pa.array([None if v is None else int(v) for v in column], pa.int64())
        case int():
            return pa.array(column, pa.int64())
        case float():
            return pa.array(column, pa.float64())
        case bytes():
            return pa.array(column, pa.binary())
    return pa.array(column, pa.string())


_TYPED = {"int": "0", "text": "''", "bool": "0", "float": "0.0"}


def _names(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    for field in schema:
        if pa.types.is_integer(field.type):
            yield field.name, "int"
        elif pa.types.is_boolean(field.type):
            yield field.name, "bool"
        elif pa.types.is_floating(field.type):
            yield field.name, "float"
        else:
            yield field.name, "text"


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type == kind else array.cast(kind)


def _has_code(statement: str) -> bool:
    lines = (line.strip() for line in statement.splitlines())
    return any(line and not line.startswith("--") for line in lines)


def _refuse_network_file_system(path: Path) -> None:
    """Refuse a place where POSIX locks cannot be trusted."""
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return
    target = str(path.parent.resolve())
    best, kind = "", ""
    for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
        parts = line.split(" ")
        point = parts[1].replace("\\040", " ")
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, parts[2]
    if kind in _NETWORK_FILE_SYSTEMS:
        raise ConfigError(
            f"The catalog at {path} lies on a network file system ({kind}).",
            hint="SQLite needs a local disk; use PostgreSQL to share a catalog.",
        )
