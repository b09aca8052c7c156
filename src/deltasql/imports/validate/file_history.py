"""What a log says of its files, as events: a second opinion on an import.

The import folds files in dictionaries; here the last word on every key is found by sorting. An
event is the hash of a file's key, its version and, for an add, its size and what else it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltasql.catalog.bulk_rows import EVENT_SCHEMA
from deltasql.parity.file_hashes import (
    Totals,
    from_digests,
    hash_contents,
    hash_keys,
    key_digests,
    mix_contents,
    numbers,
    text_digests,
)
from deltasql.parity.intervals import OPEN, Intervals
from deltasql.protocol.actions import Add, Remove
from deltasql.protocol.codec import dump_values

_REMOVED = -1
_DIGEST_BYTES = 8
_PartitionKey = tuple[tuple[str, str | None], ...]


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
