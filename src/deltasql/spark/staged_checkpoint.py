"""The state of a big table as the checkpoint that a staged log begins with, streamed from SQL.

The files come as columns and stay columns: their paths are made absolute, their deletion vectors
too. Statistics are written as the JSON that they are, which is what Delta Spark carries on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.catalog.snapshots import Snapshot
from deltasql.log.checkpoint import write_groups
from deltasql.log.row_groups import ROW_GROUP, gather
from deltasql.protocol.actions import DeletionVector, Metadata
from deltasql.protocol.checkpoint import CheckpointShape
from deltasql.protocol.features import without_fence
from deltasql.protocol.files import LAST_CHECKPOINT, checkpoint_path
from deltasql.protocol.last_checkpoint import LastCheckpoint, encode_hint
from deltasql.spark.translate import (
    StagedPlace,
    keys_of,
    named_twice,
    staged_path,
    staged_vector,
)

_PLAIN = {
    "delta.checkpoint.writeStatsAsJson": "true",
    "delta.checkpoint.writeStatsAsStruct": "false",
}
# absolute, or with letters that Hadoop spells otherwise: all other paths are below the root
_ODD = r"^/|:/|%[89A-F]"


def write_staged_checkpoint(
    folder: Path, snapshot: Snapshot, files: Iterable[pa.RecordBatch], place: StagedPlace
) -> None:
    """Write the checkpoint of version 0 below a staged folder, and the hint that names it.

    Raises:
        UnsupportedFeatureError: a file is not on local files, or is named twice.
    """
    shape = CheckpointShape(_plain(snapshot.metadata), snapshot.protocol)
    path, staged = folder / checkpoint_path(0), _StagedFiles(snapshot, place)
    groups = gather(_rows(shape, snapshot, map(staged.of, files)), shape.schema, ROW_GROUP)
    rows, adds = write_groups(path, shape.schema, groups)
    hint = LastCheckpoint(0, rows, path.stat().st_size, adds)
    (folder / LAST_CHECKPOINT).write_bytes(encode_hint(hint))


def _rows(
    shape: CheckpointShape, snapshot: Snapshot, files: Iterable[pa.RecordBatch]
) -> Iterator[pa.Table]:
    protocol = without_fence(snapshot.protocol)
    yield shape.head(protocol, snapshot.metadata, snapshot.txns(), snapshot.domains())
    for batch in files:
        yield shape.adds(batch)


@dataclass(frozen=True, slots=True)
class _StagedFiles:
    """Files as the staged log names them."""

    snapshot: Snapshot
    place: StagedPlace

    def of(self, files: pa.RecordBatch) -> pa.RecordBatch:
        """Return the files of one batch."""
        paths, vectors = files.column("path"), files.column("deletion_vector")
        named = {"path": self._paths(paths), "deletion_vector": _vectors(vectors, self.place)}
        columns = [named.get(name, files.column(name)) for name in files.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=files.schema)

    def _paths(self, paths: pa.Array) -> pa.Array:
        is_odd = pc.match_substring_regex(paths, _ODD)
        plain = pc.binary_join_element_wise(f"{self.place.root}/", paths, "")
        if not pc.any(is_odd).as_py():
            return plain
        odd = paths.filter(is_odd).to_pylist()
        found = [staged_path(path, self.place) for path in odd]
        self._refuse_twins(dict(zip(odd, found, strict=True)))
        return pc.replace_with_mask(plain, is_odd, pa.array(found, pa.string()))

    def _refuse_twins(self, found: Mapping[str, str]) -> None:
        """Two paths of one file would be one in the staged log."""
        keys = {key for path in found.values() for key in keys_of(path, self.place)}
        others = self.snapshot.files_named(sorted(keys), ["path"]).column(0).to_pylist()
        first: dict[str, str] = {}
        for path in {*found, *others}:
            twin = first.setdefault(staged_path(path, self.place), path)
            if twin != path:
                raise named_twice(self.place, twin, path)


def _vectors(texts: pa.Array, place: StagedPlace) -> pa.Array:
    if texts.null_count == len(texts):
        return texts
    decoder = msgspec.json.Decoder(DeletionVector)
    found = [
        None if text is None else staged_vector(decoder.decode(text), place)
        for text in texts.to_pylist()
    ]
    return pa.array(
        [None if one is None else msgspec.json.encode(one).decode() for one in found], pa.string()
    )


def _plain(metadata: Metadata) -> Metadata:
    return msgspec.structs.replace(metadata, configuration={**metadata.configuration, **_PLAIN})
