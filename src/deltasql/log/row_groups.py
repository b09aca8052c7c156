"""The row groups of a checkpoint: its bytes depend on where they are cut, and on nothing else."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

import pyarrow as pa

ROW_GROUP = 50_000


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
