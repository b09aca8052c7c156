"""The files of one version by their keys, for whoever names what differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from deltasql.parity.file_hashes import from_digests, hash_contents, mix_contents, text_digests
from deltasql.protocol.actions import Add
from deltasql.protocol.codec import dump_values
from deltasql.protocol.identity import path_key

FILE_COLUMNS = ("path", "dv_id", "size", "stats", "partition_values", "modification_time")


class FileKey(NamedTuple):
    """What a file is known by."""

    path: str
    dv_id: str


class FileWords(NamedTuple):
    """A file's size, and a hash of what else its add says."""

    size: int
    content: int


FileMap = Mapping[FileKey, FileWords]


def files_of(batches: Iterable[pa.RecordBatch]) -> dict[FileKey, FileWords]:
    """Return files as SQL and checkpoints have them; see FILE_COLUMNS."""
    found: dict[FileKey, FileWords] = {}
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("path", "dv_id", "size"))
        contents = hash_contents(batch).tolist()
        for path, dv_id, size, content in zip(*columns, contents, strict=True):
            found[FileKey(path_key(path), dv_id or "")] = FileWords(size, content)
    return found


def files_of_adds(adds: Sequence[Add]) -> dict[FileKey, FileWords]:
    """Return files as a commit has them."""
    contents = mix_contents(
        from_digests(text_digests([add.stats for add in adds])),
        from_digests(text_digests([dump_values(add.partition_values) for add in adds])),
        np.array([add.modification_time for add in adds], dtype=np.int64),
    ).tolist()
    return {
        FileKey(path_key(add.path), add.dv_id): FileWords(add.size, content)
        for add, content in zip(adds, contents, strict=True)
    }


def sizes_only(files: FileMap) -> FileMap:
    """Return files as if their adds said nothing else."""
    return {key: FileWords(words.size, 0) for key, words in files.items()}
