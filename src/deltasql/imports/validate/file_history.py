"""Every add and remove of a file as hashes, so that SQL's history and the log's can be compared.

The import folds files in dictionaries; here the last word on every key is found by sorting. An
event is the hash of a file's key, its version and, for an add, its size and what else it says.

From when to when each file was live: a table's whole history of files as numbers. Two sides that
agree on their intervals agree on the files of every version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from deltasql.data.read_ahead import read_ahead
from deltasql.database.port import Database
from deltasql.imports.load.window import EVENT_SCHEMA
from deltasql.protocol.actions import Add, Remove, path_key
from deltasql.protocol.codec import dump_values

_TEXT, _LONG = pa.string(), pa.int64()
_INTERVALS = pa.schema(
    [
        ("path", _TEXT),
        ("dv_id", _TEXT),
        ("size", _LONG),
        ("added_version", _LONG),
        ("removed_version", _LONG),
        ("stats", _TEXT),
        ("partition_values", _TEXT),
        ("modification_time", _LONG),
    ]
)
_DIGESTS = pa.schema([("version", _LONG), ("digest", _TEXT)])

Hashes: TypeAlias = npt.NDArray[np.uint64]

# as bytes in the order of the number: many are one text for numpy
_digest = xxhash.xxh3_64_digest
_NO_TEXT = bytes(8)
_ABSOLUTE = ("/", "file:")
_ODD = np.uint64(0x9E3779B97F4A7C15)

Numbers = npt.NDArray[np.int64]
_Kind = TypeVar("_Kind", bound=np.generic)

OPEN = np.iinfo(np.int64).max
_ODD_INTERVAL = np.uint64(0xC2B2AE3D27D4EB4F)
_TURNS = (np.uint64(31), np.uint64(17))

_REMOVED = -1
_DIGEST_BYTES = 8
_PartitionKey = tuple[tuple[str, str | None], ...]


def stream_intervals(
    database: Database, table_id: str, since: int, head: int
) -> Iterator[pa.RecordBatch]:
    """Yield all files that were live at some time from `since` on, of one state of the database.

    Those that are live at `head` come with what their adds said.
    """
    params = {"table_id": table_id, "since": since, "head": head}
    text = database.queries.text("file_intervals")
    return read_ahead(database.arrow_batches(text, params, _INTERVALS))


def version_digests(database: Database, table_id: str, first: int, last: int) -> pa.Table:
    """Return the digests of versions, in order."""
    params = {"table_id": table_id, "first": first, "last": last}
    found = database.arrow(database.queries.text("digests"), params, _DIGESTS)
    return found.sort_by("version")


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


@dataclass(frozen=True, slots=True)
class Intervals:
    """Files by the hash of their key: live from `begins` until before `ends`.

    `contents` is a hash of what an add says beside its size, 0 where nobody asks for it.
    """

    keys: Hashes
    begins: Numbers
    ends: Numbers
    sizes: Numbers
    contents: Hashes

    def within(self, since: int, head: int) -> Intervals:
        """Return what a span of versions sees of them; one that is empty is none."""
        begins = np.maximum(self.begins, since)
        ends = np.where(self.ends > head, OPEN, self.ends)
        kept = (begins < ends) & (begins <= head)
        return Intervals(
            self.keys[kept], begins[kept], ends[kept], self.sizes[kept], self.contents[kept]
        )

    def live(self, version: int) -> Totals:
        """Return the files of one version, by keys and sizes."""
        kept = (self.begins <= version) & (version < self.ends)
        return totals_of(self.keys[kept], self.sizes[kept])

    def live_contents(self) -> Totals:
        """Return the files that never ended, by keys, sizes and contents."""
        kept = self.ends == OPEN
        return totals_of(_mixed(self.keys[kept], self.contents[kept]), self.sizes[kept])

    def whole(self) -> Totals:
        """Return all intervals in three numbers."""
        return totals_of(self.words(), self.sizes)

    def borders_that_differ(self, other: Intervals) -> list[int]:
        """Return the versions at which an interval begins or ends that only one side has."""
        found: set[int] = set()
        for one, two in ((self, other), (other, self)):
            alone = ~np.isin(one.words(), two.words())
            borders = np.concatenate([one.begins[alone], one.ends[alone]])
            found.update(int(version) for version in borders[borders != OPEN])
        return sorted(found)

    def words(self) -> Hashes:
        """Return each interval as one number."""
        begins, ends = self.begins.astype(np.uint64), self.ends.astype(np.uint64)
        return _mixed(_mixed(_mixed(self.keys, begins), ends), self.sizes.astype(np.uint64))


def read_intervals(batches: Iterable[pa.RecordBatch]) -> Intervals:
    """Return intervals as SQL has them; see the query `file_intervals`."""
    parts = [_of_batch(batch) for batch in batches]
    return Intervals(
        _joined([part.keys for part in parts], np.uint64),
        _joined([part.begins for part in parts], np.int64),
        _joined([part.ends for part in parts], np.int64),
        _joined([part.sizes for part in parts], np.int64),
        _joined([part.contents for part in parts], np.uint64),
    )


def _of_batch(batch: pa.RecordBatch) -> Intervals:
    ends = batch.column("removed_version").fill_null(OPEN)
    return Intervals(
        hash_keys(batch),
        numbers(batch.column("added_version")),
        numbers(ends),
        numbers(batch.column("size")),
        hash_contents(batch),
    )


def _joined(parts: Sequence[npt.NDArray[_Kind]], kind: type[_Kind]) -> npt.NDArray[_Kind]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=kind)


def _mixed(left: Hashes, right: Hashes) -> Hashes:
    """Return hashes that depend on both, and on which is which."""
    with np.errstate(over="ignore"):
        mixed = (left ^ (left >> _TURNS[0])) * _ODD_INTERVAL + right
        mixed = (mixed ^ (mixed >> _TURNS[1])) * _ODD_INTERVAL
    return mixed ^ (mixed >> _TURNS[0])


@dataclass(slots=True)
class EventCollector:
    """Collects the events of versions in order; removes count before adds of one commit."""

    _keys: list[bytes] = field(default_factory=list)
    _versions: list[int] = field(default_factory=list)
    _sizes: list[int] = field(default_factory=list)
    _stats: list[bytes] = field(default_factory=list)
    _partitions: list[bytes] = field(default_factory=list)
    _times: list[int] = field(default_factory=list)
    _known: dict[_PartitionKey, bytes] = field(default_factory=dict)

    def take(self, version: int, adds: Sequence[Add], removes: Sequence[Remove]) -> None:
        """Note the files of one commit."""
        if removes:
            nothing = [0] * len(removes)
            self._keys.append(key_digests(removes))
            self._sizes += [_REMOVED] * len(removes)
            self._stats.append(bytes(_DIGEST_BYTES * len(removes)))
            self._partitions.append(self._stats[-1])
            self._times += nothing
        if adds:
            self._keys.append(key_digests(adds))
            self._sizes += [one.size for one in adds]
            self._stats.append(text_digests([one.stats for one in adds]))
            self._partitions.append(self._partition_digests(adds))
            self._times += [one.modification_time for one in adds]
        self._versions += [version] * (len(adds) + len(removes))

    def table(self) -> pa.Table:
        """Return the events as Arrow."""
        times = np.array(self._times, dtype=np.int64)
        keys, stats, partitions = (
            from_digests(b"".join(each)) for each in (self._keys, self._stats, self._partitions)
        )
        arrays = [
            pa.array(keys, pa.uint64()),
            pa.array(self._versions, pa.int64()),
            pa.array(self._sizes, pa.int64()),
            pa.array(mix_contents(stats, partitions, times), pa.uint64()),
        ]
        return pa.Table.from_arrays(arrays, schema=EVENT_SCHEMA)

    def _partition_digests(self, adds: Sequence[Add]) -> bytes:
        """Return the hashes of the partition values, of which there are far fewer than files."""
        found = []
        for add in adds:
            key = tuple(add.partition_values.items())
            digest = self._known.get(key)
            if digest is None:
                digest = self._known[key] = text_digests([dump_values(add.partition_values)])
            found.append(digest)
        return b"".join(found)


class Events:
    """The events of a log, sorted by file."""

    def __init__(self, tables: Iterable[pa.Table]) -> None:
        whole = pa.concat_tables([EVENT_SCHEMA.empty_table(), *tables])
        keys: npt.NDArray[np.uint64] = whole.column("key").to_numpy()
        # stable: within one key the events keep the order of the log
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._versions = numbers(whole.column("version"))[order]
        self._sizes = numbers(whole.column("size"))[order]
        self._contents: npt.NDArray[np.uint64] = whole.column("content").to_numpy()[order]

    def __len__(self) -> int:
        return len(self._keys)

    def intervals(self) -> Intervals:
        """Return from when to when each file was live: until the next word on its key."""
        ends = np.full(len(self._keys), OPEN, dtype=np.int64)
        same = self._keys[1:] == self._keys[:-1]
        ends[:-1][same] = self._versions[1:][same]
        added = self._sizes != _REMOVED
        return Intervals(
            self._keys[added],
            self._versions[added],
            ends[added],
            self._sizes[added],
            self._contents[added],
        )

    def totals(self, version: int) -> Totals:
        """Return the files that are live at a version."""
        return self.intervals().live(version)


def events_of(files: pa.Table, version: int) -> pa.Table:
    """Return the files of a state as adds of one version."""
    keys = hash_keys(files)
    arrays = [
        pa.array(keys, pa.uint64()),
        pa.repeat(pa.scalar(version, pa.int64()), len(keys)),
        files.column("size"),
        pa.array(hash_contents(files), pa.uint64()),
    ]
    return pa.Table.from_arrays(arrays, schema=EVENT_SCHEMA)
