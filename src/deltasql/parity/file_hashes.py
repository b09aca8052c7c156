"""Files as numbers: the same in every process, so that tasks on many machines can count them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from deltasql.protocol.actions import Add, Remove
from deltasql.protocol.identity import path_key

Hashes: TypeAlias = npt.NDArray[np.uint64]

# as bytes in the order of the number: many are one text for numpy
_digest = xxhash.xxh3_64_digest
_NO_TEXT = bytes(8)
_ABSOLUTE = ("/", "file:")
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Totals:
    """A set of files in three numbers; the digest depends on keys and sizes, not on order."""

    files: int
    bytes: int
    digest: int


def key_digest(path: str, dv_id: str | None) -> bytes:
    """Return the hash of a file's identity; see `from_digests`."""
    if path.startswith(_ABSOLUTE):
        path = path_key(path)
    return _digest((f"{path}\0{dv_id}" if dv_id else path).encode())


def key_digests(files: Sequence[Add | Remove]) -> bytes:
    """Return the hashes of the identities of files, one after another."""
    return b"".join(
        [
            _digest(file.path.encode())
            if file.deletion_vector is None and not file.path.startswith(_ABSOLUTE)
            else key_digest(file.path, file.dv_id)
            for file in files
        ]
    )


def text_digests(texts: Iterable[str | None]) -> bytes:
    """Return the hashes of texts, one after another; none has 0."""
    return b"".join([_NO_TEXT if text is None else _digest(text.encode()) for text in texts])


def from_digests(digests: bytes) -> Hashes:
    """Return hashes that stand one after another as numbers."""
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64)


def hash_keys(files: pa.Table | pa.RecordBatch) -> Hashes:
    """Return the identities of files: path, dv_id."""
    paths, vectors = files.column("path"), files.column("dv_id")
    if _is_any(pc.starts_with(paths, "/")) or _is_any(pc.starts_with(paths, "file:")):
        pairs = zip(paths.to_pylist(), vectors.to_pylist(), strict=True)
        return from_digests(b"".join([key_digest(path, dv) for path, dv in pairs]))
    texts = paths
    if _is_any(pc.greater(pc.binary_length(vectors), 0)):
        both = pc.binary_join_element_wise(paths, pc.fill_null(vectors, ""), "\0")
        texts = pc.if_else(pc.greater(pc.binary_length(vectors), 0), both, paths)
    return _hash_texts(texts)


def hash_contents(files: pa.Table | pa.RecordBatch) -> Hashes:
    """Return what adds say beside their size: statistics, partition values, time."""
    stats = _hash_texts(files.column("stats"))
    partitions = _hash_few_texts(files.column("partition_values"))
    return mix_contents(stats, partitions, numbers(files.column("modification_time").fill_null(0)))


def _hash_texts(texts: pa.Array | pa.ChunkedArray) -> Hashes:
    """Return what `text_digests` says of each: as bytes they need not be encoded again."""
    found = texts.cast(pa.binary()).to_pylist()
    return from_digests(b"".join([_NO_TEXT if text is None else _digest(text) for text in found]))


def _is_any(found: pa.Array | pa.ChunkedArray) -> bool:
    return bool(pc.any(found).as_py())


def _hash_few_texts(texts: pa.Array | pa.ChunkedArray) -> Hashes:
    """Return the same for texts most of which are there many times."""
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    coded = texts.dictionary_encode(null_encoding="encode")
    found: Hashes = _hash_texts(coded.dictionary)[coded.indices.to_numpy()]
    return found


def mix_contents(stats: Hashes, partitions: Hashes, times: npt.NDArray[np.int64]) -> Hashes:
    """Return one hash of the three."""
    with np.errstate(over="ignore"):
        mixed = stats * _ODD + partitions
        return (mixed ^ (mixed >> np.uint64(31))) * _ODD + times.astype(np.uint64)


def count_files(batches: Iterable[pa.RecordBatch]) -> Totals:
    """Return the totals of files as a checkpoint has them: path, dv_id, size."""
    files, size, digest = 0, 0, 0
    for batch in batches:
        part = totals_of(hash_keys(batch), numbers(batch.column("size")))
        files, size = files + part.files, size + part.bytes
        digest = (digest + part.digest) % 2**64
    return Totals(files, size, digest)


def totals_of(keys: Hashes, sizes: npt.NDArray[np.int64]) -> Totals:
    """Return the totals of files by the hashes of their keys."""
    with np.errstate(over="ignore"):
        mixed = (keys ^ (sizes.astype(np.uint64) * _ODD)) * _ODD
        digest = int(np.bitwise_xor(mixed, mixed >> np.uint64(29)).sum(dtype=np.uint64))
    return Totals(len(keys), int(sizes.sum(dtype=np.int64)), digest)


def numbers(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return a column of numbers for numpy."""
    found: npt.NDArray[np.int64] = (
        column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()
    )
    return found
