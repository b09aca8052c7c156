"""SQLite through ADBC, which carries a SQLite library of its own.

Whatever else opens and closes the database file in this process, another library among them, no
acknowledged commit is lost: `sqlite_files` has the locks for it, and every write looks before and
after its COMMIT whether the files are still the same; see docs/decisions/0001.

All values of a statement travel as one JSON text, which SQLite takes apart: binding each value as
an Arrow column costs seven times as much.
"""

from __future__ import annotations

import shutil
import stat
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from deltasql.clock import now_ms
from deltasql.cores import usable_cores
from deltasql.database.adbc import ROW_JSON, SQLITE_WORDS, require_all, without_nulls
from deltasql.database.named_queries import Queries, load_queries, split_statements
from deltasql.database.pool import Pool, weakly
from deltasql.database.port import BatchRead, BulkTransaction, DbTransaction, Dialect, SplitQuery
from deltasql.database.sqlite_access import INDEX, LOCKS, WAL, Access, FileIdentity, size_of
from deltasql.database.sqlite_connection import SqliteConnection, make_wal, query_once
from deltasql.database.sqlite_files import is_there, no_right_error, require_folder
from deltasql.errors import (
    BadArgumentError,
    CatalogError,
    CatalogUnavailableError,
    ConfigError,
    SchemaMissingError,
)

# More threads than these only wait for memory.
_MOST_PARTS = 4

# Fewer numbers than these are read before a second thread has begun.
_FEWEST_NUMBERS = 100_000
_FARTHEST = 2**63 - 1

NO_TABLES = "the database there has no deltasql tables"
_MAGIC = b"SQLite format 3\x00"
_NO_PLACE_FOR_ONE = "Check the path in the URI; a catalog cannot be made there."

DIALECT = Dialect(
    name="sqlite",
    has_row_locks=False,
    has_writing_ctes=False,
    must_tell_commits=False,
)
_CHUNK_ROWS = 5_000
_BULK_CACHE_KIB = 200_000
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afs"}
_MOUNTS = Path("/proc/self/mounts")
_WORDS = {
    "now": "0",
    "false": "0",
    "true": "1",
}
_encoder = msgspec.json.Encoder()


def number_ranges(
    first: int | None, last: int | None, *, cores: int | None = None
) -> list[tuple[int, int]]:
    """Return ranges, open at their end, that share out the numbers from about first to about last.

    Together they hold every number there is: the outermost reach as far as numbers go.
    """
    span = last - first + 1 if first is not None and last is not None else 0
    parts = max(1, min(cores or usable_cores(), _MOST_PARTS, span // _FEWEST_NUMBERS))
    inner = [(first or 0) + span * part // parts for part in range(1, parts)]
    ends = [-_FARTHEST, *inner, _FARTHEST]
    return list(pairwise(ends))


def read_side_by_side(
    readers: Iterable[Callable[[], Iterable[pa.RecordBatch]]],
) -> list[pa.RecordBatch]:
    """Run the readers at the same time and return their batches in the readers' order."""
    readers = list(readers)
    with ThreadPoolExecutor(len(readers)) as pool:
        return [batch for part in pool.map(lambda read: list(read()), readers) for batch in part]


class _Rows(Protocol):
    def look(self) -> AbstractContextManager[None]: ...

    def rows(self, text: str) -> list[tuple[Any, ...]]: ...

    def close(self) -> None: ...


class SqliteWatch:
    """Looks at the data version: it moves with every commit of another connection."""

    def __init__(self, connection: _Rows, pause: Callable[[float], None] = time.sleep) -> None:
        self._connection = connection
        self._pause = pause
        self._seen = self._version()

    def heard(self, seconds: float) -> bool:
        """Wait at most so long; tell whether somebody committed since the last call."""
        if self._has_moved():
            return True
        self._pause(seconds)
        return self._has_moved()

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    def _has_moved(self) -> bool:
        before, self._seen = self._seen, self._version()
        return self._seen != before

    def _version(self) -> int:
        with self._connection.look():
            return int(self._connection.rows("pragma data_version")[0][0])


def require_catalog(path: Path, has_tables: str) -> None:
    """Refuse a path without a catalog; `has_tables` is the query that counts its first table.

    A file that has our lock file beside it was opened by us before: its tables are not looked for
    here, because opening it leaves nothing new behind.

    Raises:
        SchemaMissingError: says what is there.
        PermissionDeniedError: this user may not look.
    """
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(path, "there is no such file") from None
    except OSError as error:
        raise _closed(path, error) from error
    if not stat.S_ISREG(found.st_mode):
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "no file"
        raise _missing(path, f"it is {kind}", hint=_NO_PLACE_FOR_ONE)
    if not found.st_size:
        raise _missing(path, "the file is empty")
    if Path(f"{path}{LOCKS}").exists():
        return
    if _first_bytes(path) != _MAGIC:
        raise _missing(path, "the file is not a SQLite database", hint=_NO_PLACE_FOR_ONE)
    if not _count(path, has_tables):
        raise _missing(path, NO_TABLES)


def _count(path: Path, query: str) -> int:
    """Return what the query counts; a database that others use is read with its log."""
    if not size_of(f"{path}{WAL}"):
        return int(query_once(path, Access.FROZEN, query)[0][0])
    if Path(f"{path}{INDEX}").exists():
        return int(query_once(path, Access.READING, query)[0][0])
    # A log that nobody uses: SQLite would make its index beside it.
    with TemporaryDirectory(prefix="deltasql-look-") as folder:
        copy = Path(folder) / "copy.db"
        shutil.copyfile(path, copy)
        shutil.copyfile(f"{path}{WAL}", f"{copy}{WAL}")
        return int(query_once(copy, Access.SHARED, query)[0][0])


def _first_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC))
    except OSError as error:
        raise _closed(path, error) from error


def _missing(path: Path, reason: str, hint: str | None = None) -> SchemaMissingError:
    return SchemaMissingError(f"There is no catalog at {path}: {reason}.", hint=hint)


def _closed(path: Path, error: OSError) -> CatalogError:
    if isinstance(error, PermissionError):
        return no_right_error(path)
    return CatalogUnavailableError(
        f"The catalog database at {path} cannot be opened: {error.strerror}."
    )


def _column_words(columns: str) -> dict[str, str]:
    """A row of many columns comes back as one JSON text too."""
    return {
        "table_columns": f"json_array({columns}) as {ROW_JSON}",
        "locked_columns": f"json_array({columns}, t.epoch, 0) as {ROW_JSON}",
    }


class SqliteDatabase:
    """A catalog in one SQLite file, in WAL mode with full durability."""

    dialect = DIALECT
    has_server_timestamp = False

    def __init__(
        self, path: Path, *, must_exist: bool = True, clock: Callable[[], int] | None = None
    ) -> None:
        self.path = path
        self._clock = clock or now_ms
        sources = load_queries("sqlite")
        self.queries = Queries(
            sources,
            "(?1 ->> '$.{name}')",
            "(?1 ->> '$.{name}')",
            "nullif(?2, x'')",
            _column_words(sources["table_columns"]) | _WORDS | SQLITE_WORDS,
        )
        refuse_network_file_system(path)
        if must_exist:
            require_catalog(path, self.queries.get("has_schema_version").text)
        elif not is_there(path):
            require_folder(path)
            make_wal(path)
        # by a weak reference: the finalizer below holds the pool, and the pool must not hold us
        self._pool = Pool(
            weakly(self._connect), SqliteConnection.is_usable, SqliteConnection.is_idle
        )
        # A catalog that nobody closed is closed before the interpreter takes the driver away.
        weakref.finalize(self, self._pool.close)
        self._file: FileIdentity | None = None
        with self._pool.connection() as connection:
            self._file = connection.file

    def _connect(self) -> SqliteConnection:
        """Open a connection to the file that was opened first: what is cached belongs to it."""
        return SqliteConnection(self.path, self._file)

    def fetch_all(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """Run one query by itself."""
        with self._pool.connection() as connection, connection.look():
            return _SqliteTransaction(connection, self.queries, self._clock).fetch_all(
                name, **params
            )

    def write_once(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """Run one statement as a transaction of its own."""
        with self.write() as tx:
            return tx.fetch_all(name, **params)

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[DbTransaction]:
        """Open a write transaction; it holds the file's one write lock from its first statement."""
        with self._pool.connection() as connection:
            connection.set_durable(durable=durable)
            with connection.write():
                yield _SqliteTransaction(connection, self.queries, self._clock)

    @contextmanager
    def bulk(self) -> Iterator[BulkTransaction]:
        """Open a write transaction with a cache in which the indexes it writes to find room."""
        with closing(self._connect()) as connection:
            connection.execute(f"pragma cache_size = -{_BULK_CACHE_KIB}")
            connection.execute("pragma temp_store = memory")
            with connection.write():
                yield _SqliteBulkTransaction(connection, self.queries, self._clock)

    @contextmanager
    def read(self) -> Iterator[DbTransaction]:
        """Open a read of one state; it never stops a writer."""
        with self._reading() as tx:
            yield tx

    @contextmanager
    def read_batches(self) -> Iterator[BatchRead]:
        """Open a read of one state that gives Arrow."""
        with self._reading() as tx:
            yield tx

    @contextmanager
    def _reading(self) -> Iterator[_SqliteTransaction]:
        with self._pool.connection() as connection, connection.read():
            yield _SqliteTransaction(connection, self.queries, self._clock)

    def arrow(self, text: str, params: dict[str, Any], schema: pa.Schema) -> pa.Table:
        """Return the rows of a query as one Arrow table."""
        return pa.Table.from_batches(self.arrow_batches(text, params, schema), schema)

    def fetch_arrow_parallel(self, query: SplitQuery, schema: pa.Schema) -> pa.Table:
        """Return the rows of a query as one Arrow table; very many are read by several threads.

        Each connection sees a state of its own; where their rows may differ, the first one's are
        read as a whole.
        """
        with ExitStack() as stack:
            tx = stack.enter_context(self._reading())
            first, last, *state = tx.fetch_all(query.state, **query.params)[0]
            ranges = number_ranges(first, last)
            works = [tx, *(stack.enter_context(self._reading()) for _ in ranges[1:])]
            states = [
                list(other.fetch_all(query.state, **query.params)[0][2:]) for other in works[1:]
            ]
            if any(other != state for other in states):
                ranges = []
            if len(ranges) <= 1:
                batches = tx.batches(query.whole, query.params, schema)
                return pa.Table.from_batches(batches, schema)
            readers = [
                partial(
                    each.batches,
                    query.part,
                    {**query.params, "low_id": low, "high_id": high},
                    schema,
                )
                for each, (low, high) in zip(works, ranges, strict=True)
            ]
            return pa.Table.from_batches(read_side_by_side(readers), schema)

    def fetch_arrow_small(self, text: str, params: dict[str, Any], schema: pa.Schema) -> pa.Table:
        """Return the rows of a query that selects few."""
        return self.arrow(text, params, schema)

    def arrow_batches(
        self, text: str, params: dict[str, Any], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query in batches."""
        with self._pool.connection() as connection, connection.look():
            tx = _SqliteTransaction(connection, self.queries, self._clock)
            yield from tx.batches(text, params, schema)

    def notify_commits(self, table_ids: Sequence[str]) -> None:
        """Do nothing: the file shows it."""

    def watch_commits(self) -> SqliteWatch:
        """Watch the file's data version."""
        return SqliteWatch(self._connect())

    def login(self) -> None:
        """Return nobody: whoever may write to the file may commit."""

    def create_namespace(self) -> None:
        """Do nothing: the file is the place."""

    def why_missing(self) -> str:
        """Say what is there instead of a catalog."""
        return f"There is no catalog at {self.path}: {NO_TABLES}."

    def script(self, text: str, tx: DbTransaction) -> None:
        """Run the statements of a migration one by one."""
        assert isinstance(tx, _SqliteTransaction)  # noqa: S101 (our own transaction by construction)
        for statement in split_statements(text):
            tx.connection.execute(statement)

    def close(self) -> None:
        """Close all idle connections; a connection in use closes when it is given back."""
        self._pool.close()


class _SqliteTransaction:
    """An open SQLite transaction."""

    def __init__(
        self, connection: SqliteConnection, queries: Queries, clock: Callable[[], int]
    ) -> None:
        self.connection = connection
        self._queries = queries
        self._clock = clock

    def fetch_all(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        query = self._queries.get(name)
        return self.connection.rows(query.text, _json(params) if query.names else None)

    def batches(
        self, text: str, params: dict[str, Any], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """The driver types a column by its first batch: a typed row goes first and is cut off."""
        typed = ", ".join(f"{_typed(field.type)} as {field.name}" for field in schema)
        query = self._queries.compile(f"select {typed} union all select * from ({text})")
        values = _json(params) if query.names else None
        first = True
        with closing(self.connection.batches(query.text, values)) as batches:
            for batch in batches:
                rows = batch.slice(1) if first else batch
                first = False
                yield pa.RecordBatch.from_arrays(
                    [_cast(rows.column(i), field.type) for i, field in enumerate(schema)],
                    schema=schema,
                )

    def fetch_later(self, name: str, /, **params: Any) -> Callable[[], list[tuple[Any, ...]]]:
        found = self.fetch_all(name, **params)
        return lambda: found

    def execute(self, name: str, /, **params: Any) -> None:
        query = self._queries.get(name)
        blob = (params.pop("payload") or b"") if "payload" in params else None
        self.connection.execute(query.text, _json(params) if query.names else None, blob)

    def execute_many(self, name: str, /, columns: dict[str, Sequence[Any]], **shared: Any) -> None:
        """Run a statement that selects from json_each over the rows; see sqlite.sql.

        Bytes have no place in JSON: a statement with payloads is run once for each row.
        """
        if "payload" in columns:
            self._run_each(name, columns, shared)
            return
        places = {f"row.{key}": f"(r.value ->> {place})" for place, key in enumerate(columns)}
        text = self._queries.get(name, **places).text
        rows = list(zip(*columns.values(), strict=True))
        for start in range(0, len(rows), _CHUNK_ROWS):
            part = rows[start : start + _CHUNK_ROWS]
            self.connection.execute(text, _json({**shared, "rows": part}))

    def _run_each(
        self, name: str, columns: dict[str, Sequence[Any]], shared: Mapping[str, Any]
    ) -> None:
        plain = {key: column for key, column in columns.items() if key != "payload"}
        rows = zip(*plain.values(), strict=True)
        values = [_json({**shared, **dict(zip(plain, row, strict=True))}) for row in rows]
        blobs = [payload or b"" for payload in columns["payload"]]
        self.connection.execute_each(self._queries.get(name).text, values, blobs)

    def now_ms(self) -> int:
        return self._clock()


class _SqliteBulkTransaction(_SqliteTransaction):
    """An open SQLite transaction on a connection of its own."""

    def stage(self, create: str, rows: pa.Table) -> None:
        self.connection.execute(self._queries.get(create).text)
        name = create.removeprefix("create_")
        if rows.num_rows:
            require_all(name, self.connection.ingest(name, rows), rows.num_rows)

    def insert(self, name: str, rows: pa.Table, *, table_id: str | None = None) -> None:
        kept = without_nulls(rows)
        if table_id is not None:
            ids = pa.repeat(pa.scalar(table_id), rows.num_rows)
            kept = kept.append_column("table_id", ids)
        require_all(name, self.connection.ingest(name, kept, into={}), rows.num_rows)


def _json(params: Mapping[str, Any]) -> bytes:
    try:
        return _encoder.encode(params)
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise BadArgumentError(f"SQLite cannot hold a value: {error}.") from error


def _typed(kind: pa.DataType) -> str:
    """Return a literal of the type, for the row that teaches the driver the columns' types."""
    if pa.types.is_floating(kind):
        return "0.0"
    return "0" if pa.types.is_integer(kind) or pa.types.is_boolean(kind) else "''"


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type == kind else array.cast(kind)


def refuse_network_file_system(path: Path, mounts: str | None = None) -> None:
    """Refuse a place where POSIX locks cannot be trusted; `mounts` is the system's own table.

    SQLite's locks hold on a disk of this machine only.

    Raises:
        ConfigError: names the file system.
    """
    if mounts is None:
        there = _MOUNTS.exists()
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace") if there else ""
    target = str(path.parent.resolve())
    best, kind = "", ""
    for line in mounts.splitlines():
        _, point, found, *_ = line.split(" ")
        point = point.replace("\\040", " ")
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, found
    if kind in _NETWORK:
        raise ConfigError(
            f"The catalog at {path} lies on a network file system ({kind}).",
            hint="SQLite needs a local disk; use PostgreSQL to share a catalog.",
        )
