"""Compaction: which small files belong together, and their rows in fewer, bigger files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import msgspec
import pyarrow as pa

from deltasql.data.scanner import OpenRoot, ScanSpec, output_schema, scan_files
from deltasql.data.writer import WriteSpec, write_files
from deltasql.errors import CorruptDataError
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.protocol.actions import Add
from deltasql.protocol.codec import dump_values
from deltasql.protocol.features import writer_features
from deltasql.storage.port import ObjectStore


def write_spec(
    snapshot: Snapshot,
    roll: Callable[[], str],
    now_ms: int,
    *,
    target_size: int | None = None,
    data_change: bool = True,
) -> WriteSpec:
    """Return what a write to this snapshot's table must know."""
    metadata = snapshot.metadata
    return WriteSpec(
        snapshot.schema,
        roll,
        now_ms,
        metadata.partition_columns,
        metadata.configuration,
        writer_features(snapshot.protocol),
        target_file_size=target_size,
        data_change=data_change,
    )


def choose_groups(adds: Sequence[Add], target: int) -> list[list[Add]]:
    """Return groups of files, each of one partition, that are worth rewriting together.

    A group has at least two files, or one with deleted rows; files near the target stay.
    """
    by_partition: dict[str, list[Add]] = defaultdict(list)
    for add in adds:
        if add.size < target * 3 // 4 or add.deletion_vector is not None:
            by_partition[dump_values(add.partition_values)].append(add)
    groups: list[list[Add]] = []
    for _, files in sorted(by_partition.items()):
        bins: list[list[Add]] = [[]]
        for add in sorted(files, key=lambda one: (one.size, one.path)):
            if bins[-1] and sum(one.size for one in bins[-1]) + add.size > target:
                bins.append([])
            bins[-1].append(add)
        groups += [b for b in bins if len(b) > 1 or (b and b[0].deletion_vector is not None)]
    return groups


def rewrite(
    group: Sequence[Add],
    snapshot: Snapshot,
    store: ObjectStore,
    spec: WriteSpec,
    open_root: OpenRoot | None = None,
) -> list[Add]:
    """Write the rows of a group into new files.

    Their partition values stay spelled as they were: a time without a zone means another moment to
    each reader, and it is not for us to settle which.

    Raises:
        CorruptDataError: other rows came out than went in; the new files are of no use.
    """
    metadata = snapshot.metadata
    scan = ScanSpec(
        snapshot.schema, metadata.partition_columns, metadata.configuration, open_root=open_root
    )
    files = files_to_scan(group)
    counted = 0

    def rows() -> object:
        nonlocal counted
        for batch in scan_files(files, scan, store):
            counted += batch.num_rows
            yield batch

    reader = pa.RecordBatchReader.from_batches(output_schema(scan), rows())
    written = write_files(reader, spec, store)
    told = sum(_records(add) for add in written)
    if told != counted:
        raise CorruptDataError(f"Compaction read {counted} rows but wrote {told}.")
    values = group[0].partition_values
    return [msgspec.structs.replace(add, partition_values=values) for add in written]


def files_to_scan(adds: Sequence[Add]) -> pa.Table:
    """Return files as a scan takes them."""
    return pa.table(
        {
            "path": pa.array([add.path for add in adds], pa.string()),
            "size": pa.array([add.size for add in adds], pa.int64()),
            "partition_values": pa.array(
                [dump_values(add.partition_values) for add in adds], pa.string()
            ),
            "deletion_vector": pa.array([_vector(add) for add in adds], pa.string()),
        }
    )


def _records(add: Add) -> int:
    stats = msgspec.json.decode(add.stats or "{}")
    return int(stats.get("numRecords", 0))


def _vector(add: Add) -> str | None:
    if add.deletion_vector is None:
        return None
    plain = msgspec.to_builtins(add.deletion_vector)
    plain.pop("~extra", None)
    return dump_values(plain)
