"""Very many keys in eight bytes each; may hold too much by chance, and never too little."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc


class KeySet:
    """Tells whether a key may be among those it was made of.

    Two keys of one hash are taken for the same: whoever protects objects by this set keeps one
    too many then.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        hashes = array("q", (hash(key) for key in keys))
        found = pa.Array.from_buffers(pa.int64(), len(hashes), [None, pa.py_buffer(hashes)])
        in_order = found.take(pc.sort_indices(found)) if len(found) else found
        self._sorted = memoryview(in_order.buffers()[1] or b"").cast("q")[: len(found)]

    def __contains__(self, key: object) -> bool:
        place = bisect_left(self._sorted, hash(key))
        return place < len(self._sorted) and self._sorted[place] == hash(key)

    def __len__(self) -> int:
        return len(self._sorted)
