"""Files as numbers: the same in every process, so that tasks on many machines can count them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from deltasql.protocol.identity import path_key

_hash = xxhash.xxh3_64_intdigest
_ABSOLUTE = ("/", "file:")
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Totals:
    """A set of files in three numbers; the digest depends on keys and sizes, not on order."""

    files: int
    bytes: int
    digest: int


def key_hash(path: str, dv_id: str | None) -> int:
    """Return the hash of a file's identity."""
    if path.startswith(_ABSOLUTE):
        path = path_key(path)
    return _hash((f"{path}\0{dv_id}" if dv_id else path).encode())


def text_hash(text: str | None) -> int:
    """Return the hash of a text; none has 0."""
    return 0 if text is None else _hash(text.encode())


def hash_keys(files: pa.Table | pa.RecordBatch) -> npt.NDArray[np.uint64]:
    """Return the identities of files: path, dv_id."""
    paths, vectors = files.column("path"), files.column("dv_id")
    if _is_any(pc.starts_with(paths, "/")) or _is_any(pc.starts_with(paths, "file:")):
        pairs = zip(paths.to_pylist(), vectors.to_pylist(), strict=True)
        return np.array([key_hash(path, dv) for path, dv in pairs], dtype=np.uint64)
    texts = paths
    if _is_any(pc.greater(pc.binary_length(vectors), 0)):
        both = pc.binary_join_element_wise(paths, pc.fill_null(vectors, ""), "\0")
        texts = pc.if_else(pc.greater(pc.binary_length(vectors), 0), both, paths)
    return _hash_texts(texts)


def hash_contents(files: pa.Table | pa.RecordBatch) -> npt.NDArray[np.uint64]:
    """Return what adds say beside their size: statistics, partition values, time."""
    stats = _hash_texts(files.column("stats"))
    known: dict[str | None, int] = {}
    partitions = [
        known[text] if text in known else known.setdefault(text, text_hash(text))
        for text in files.column("partition_values").to_pylist()
    ]
    return mix_contents(stats, partitions, numbers(files.column("modification_time").fill_null(0)))


def _hash_texts(texts: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """Return what `text_hash` says of each: as bytes they need not be encoded again."""
    found = texts.cast(pa.binary()).to_pylist()
    return np.array([0 if text is None else _hash(text) for text in found], dtype=np.uint64)


def _is_any(found: pa.Array | pa.ChunkedArray) -> bool:
    return bool(pc.any(found).as_py())


def mix_contents(
    stats: list[int] | npt.NDArray[np.uint64], partitions: list[int], times: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    """Return one hash of the three."""
    with np.errstate(over="ignore"):
        mixed = np.array(stats, dtype=np.uint64) * _ODD + np.array(partitions, dtype=np.uint64)
        return (mixed ^ (mixed >> np.uint64(31))) * _ODD + times.astype(np.uint64)


def count_files(batches: Iterable[pa.RecordBatch]) -> Totals:
    """Return the totals of files as a checkpoint has them: path, dv_id, size."""
    files, size, digest = 0, 0, 0
    for batch in batches:
        part = totals_of(hash_keys(batch), numbers(batch.column("size")))
        files, size = files + part.files, size + part.bytes
        digest = (digest + part.digest) % 2**64
    return Totals(files, size, digest)


def totals_of(keys: npt.NDArray[np.uint64], sizes: npt.NDArray[np.int64]) -> Totals:
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
