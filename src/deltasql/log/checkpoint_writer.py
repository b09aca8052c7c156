"""Checkpoints as Parquet files, written in row groups of bounded size.

A broken checkpoint makes a table unreadable although every commit is there, so nothing reaches
the store that was not read back first.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from deltasql.crash import crash_point
from deltasql.errors import (
    CheckpointError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageUnavailableError,
)
from deltasql.log.parquet_input import require_readable
from deltasql.protocol.log_names import (
    LAST_CHECKPOINT,
    LAST_CHECKPOINT_CHECKSUM,
    LastCheckpoint,
    checkpoint_path,
    decode_hint,
    encode_hint,
)
from deltasql.storage.port import ObjectStore

ROW_GROUP = 50_000

# More than this goes to the store in parts, never whole through memory.
_ONE_PUT = 100 * 1024 * 1024
_PIECE = 8 * 1024 * 1024

# Reading takes smaller bites: what a batch unpacks to is many times its size in the file.
_READ_ROWS = 10_000

# Only what repeats is worth a dictionary: paths and statistics are all different.
_DICTIONARY = [
    "add.partitionValues.key_value.key",
    "add.partitionValues.key_value.value",
    "remove.partitionValues.key_value.key",
    "remove.partitionValues.key_value.value",
]


def cut(
    batches: Iterable[pa.RecordBatch], *, rows: int = ROW_GROUP, after: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in pieces that end where row groups do; `after` so many rows before."""
    wanted = rows - after % rows
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        while count >= wanted:
            whole = pa.Table.from_batches(waiting)
            yield from whole.slice(0, wanted).combine_chunks().to_batches()
            waiting = whole.slice(wanted).to_batches()
            count -= wanted
            wanted = rows
    if count:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def gather(
    tables: Iterable[pa.Table], schema: pa.Schema, rows: int
) -> Generator[pa.Table, None, None]:
    """Yield the rows as one table for each row group, whatever pieces they come in.

    No rows at all are one empty table.
    """
    waiting = schema.empty_table()
    has_rows = False
    for table in tables:
        waiting = pa.concat_tables([waiting, table]) if waiting.num_rows else table
        while waiting.num_rows >= rows:
            yield _in_one_chunk(waiting.slice(0, rows))
            waiting = waiting.slice(rows) if waiting.num_rows > rows else schema.empty_table()
            has_rows = True
    if waiting.num_rows or not has_rows:
        yield _in_one_chunk(waiting)


def _in_one_chunk(table: pa.Table) -> pa.Table:
    """A group that comes whole is not copied."""
    if all(column.num_chunks == 1 for column in table.columns):
        return table
    return table.combine_chunks()


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """A checkpoint as it lies in a file: what there is to know without reading it again."""

    version: int
    size: int
    rows: int
    adds: int
    digest: str

    @property
    def key(self) -> str:
        """The object's key below the table's root."""
        return checkpoint_path(self.version)


@dataclass(slots=True)
class CheckpointWriter:
    """Writes classic checkpoints of one table to its store."""

    store: ObjectStore
    codec: str = "snappy"
    group_rows: int = ROW_GROUP

    @contextmanager
    def spool(
        self, version: int, schema: pa.Schema, rows: Iterable[pa.Table]
    ) -> Iterator[tuple[CheckpointFile, Path]]:
        """Write the rows to a local file that lasts as long as the block."""
        with tempfile.TemporaryDirectory(prefix="deltasql-checkpoint-") as folder:
            path = Path(folder) / "checkpoint.parquet"
            with closing(gather(rows, schema, self.group_rows)) as groups:
                counted = write_groups(path, schema, groups, self.codec)
            size, found = path.stat().st_size, _digest(path)
            crash_point("checkpoint-spooled")
            yield CheckpointFile(version, size, *counted, found), path

    @contextmanager
    def fetch(
        self, version: int, known: str | None = None
    ) -> Iterator[tuple[CheckpointFile, Path]]:
        """Bring the checkpoint that is in the log to a local file.

        Unless it has the digest that is `known` of ours, anybody may have written it: then it is
        read by a child process before this one reads it.

        Raises:
            CheckpointError: it is no sound Parquet file.
        """
        with tempfile.TemporaryDirectory(prefix="deltasql-checkpoint-") as folder:
            path = Path(folder) / "checkpoint.parquet"
            with self.store.open_input(checkpoint_path(version)) as source, path.open("wb") as out:
                shutil.copyfileobj(source, out, _PIECE)
            if known is None or _digest(path) != known:
                with _readable(version):
                    require_readable(path)
            yield describe(version, path), path

    def write_checkpoint(self, file: CheckpointFile, path: Path, *, replace: bool = False) -> bool:
        """Put a verified spool; False if the log has one already and it is not to be replaced."""
        if not replace and self._is_there(file.key):
            return False
        crash_point("before-checkpoint-put")
        created = self._put(file, path, replace=replace)
        crash_point("after-checkpoint-put")
        return created

    def move_hint(self, hint: LastCheckpoint) -> bool:
        """Let `_last_checkpoint` name a checkpoint, unless it names a newer one already."""
        try:
            current = decode_hint(self.store.get(LAST_CHECKPOINT))
        except ObjectNotFoundError:
            current = None
        if current is not None and current.version >= hint.version:
            return False
        self.put_hint(hint)
        return True

    def put_hint(self, hint: LastCheckpoint) -> None:
        """Let `_last_checkpoint` name a checkpoint whatever it names now."""
        self.store.put(LAST_CHECKPOINT, encode_hint(hint))
        self._drop_hadoop_checksum()
        crash_point("after-last-checkpoint")

    def _put(self, file: CheckpointFile, path: Path, *, replace: bool) -> bool:
        # what the spool was made with goes back before the file itself comes into memory
        pa.default_memory_pool().release_unused()
        if file.size <= _ONE_PUT and replace:
            self.store.put(file.key, path.read_bytes())
            return True
        if file.size <= _ONE_PUT:
            try:
                self.store.put_if_absent(file.key, path.read_bytes())
            except ObjectExistsError:
                return False
            except StorageUnavailableError:
                # perhaps it is there all the same; what is there is judged by its content
                if self._is_there(file.key):
                    return False
                raise
            return True
        with path.open("rb") as source, self.store.open_output(file.key) as out:
            shutil.copyfileobj(source, out, _PIECE)
        self._require_size(file)
        return True

    def _is_there(self, key: str) -> bool:
        try:
            self.store.head(key)
        except ObjectNotFoundError:
            return False
        return True

    def _require_size(self, file: CheckpointFile) -> None:
        found = self.store.head(file.key).size
        if found != file.size:
            raise CheckpointError(
                f"{file.key} at {self.store.uri} has {found} bytes instead of {file.size}.",
                key=file.key,
            )

    def _drop_hadoop_checksum(self) -> None:
        """On a local disk Hadoop keeps a checksum beside the hint, which is wrong from now on."""
        if self.store.local_path(LAST_CHECKPOINT_CHECKSUM) is not None:
            self.store.delete(LAST_CHECKPOINT_CHECKSUM)


def describe(version: int, path: Path) -> CheckpointFile:
    """Return what a checkpoint file holds, by its footer and its bytes.

    Raises:
        CheckpointError: it is no Parquet file.
    """
    try:
        footer = pq.read_metadata(path)
        adds = count_kind(path, "add")
    except (pa.ArrowException, OSError) as error:
        raise CheckpointError(
            f"{checkpoint_path(version)} is no checkpoint: {_first_line(error)}.",
            key=checkpoint_path(version),
        ) from error
    return CheckpointFile(version, path.stat().st_size, footer.num_rows, adds, _digest(path))


def count_kind(path: Path, kind: str) -> int:
    """Return how many rows hold an action of a kind."""
    with pq.ParquetFile(path) as file:
        return sum(
            batch.num_rows - batch.column(0).null_count
            for batch in file.iter_batches(_READ_ROWS, columns=[kind])
        )


def read_footer(path: Path, version: int) -> pq.FileMetaData:
    """Return what a checkpoint's footer says.

    Raises:
        CheckpointError: it cannot be read.
    """
    with _readable(version):
        return pq.read_metadata(path)


def read_group(
    path: Path, version: int, footer: pq.FileMetaData, number: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one row group; every page of it is read.

    Raises:
        CheckpointError: a part of the file cannot be read.
    """
    with (
        _readable(version),
        pq.ParquetFile(path, metadata=footer, page_checksum_verification=True) as file,
    ):
        # threads of its own would only stand in the way: the columns of a group are few
        yield from file.iter_batches(_READ_ROWS, row_groups=[number], use_threads=False)


def read_rows(path: Path, version: int) -> Iterator[pa.RecordBatch]:
    """Yield all rows of a checkpoint; every page of the file is read.

    Raises:
        CheckpointError: a part of the file cannot be read.
    """
    footer = read_footer(path, version)
    for number in range(footer.num_row_groups):
        yield from read_group(path, version, footer, number)


@contextmanager
def _readable(version: int) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CheckpointError(
            f"{checkpoint_path(version)} cannot be read: {_first_line(error)}.",
            key=checkpoint_path(version),
        ) from error


def write_groups(
    path: Path, schema: pa.Schema, groups: Iterable[pa.Table], codec: str = "snappy"
) -> tuple[int, int]:
    """Write one row group for each table; return how many rows there are, and how many adds."""
    counts = [0, 0]
    with pq.ParquetWriter(
        path,
        schema,
        compression=codec,
        use_dictionary=_DICTIONARY,
        write_statistics=False,
        store_schema=False,
        store_decimal_as_integer=True,  # as Spark does where the digits allow it
        data_page_version="1.0",
        write_page_checksum=True,
    ) as writer:
        for table in groups:
            writer.write_table(table, row_group_size=max(table.num_rows, 1))
            counts[0] += table.num_rows
            counts[1] += table.num_rows - table.column("add").null_count
    return counts[0], counts[1]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else "no reason"
