"""Are the data files that a commit needs still there, and as large as it says?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from deltasql.errors import CorruptDataError, ObjectNotFoundError
from deltasql.protocol.actions import Action, Add
from deltasql.storage.paths import RelativeKey, resolve_path
from deltasql.storage.port import ObjectStore

_THREADS = 16


def require_present(actions: Iterable[Action], store: ObjectStore) -> None:
    """Refuse to commit files that were deleted from the store.

    Raises:
        CorruptDataError: names the first file that is gone, and how many are.
    """
    _require_present([action for action in actions if isinstance(action, Add)], store)


def require_sizes(adds: Sequence[Add], store: ObjectStore) -> None:
    """Refuse to commit new files that are gone, or whose size is not the one that is recorded.

    Raises:
        CorruptDataError: names the first of them; Spark would miss rows of a file that is larger.
    """
    sizes = _require_present(adds, store)
    for add, size in zip(adds, sizes, strict=True):
        if size != add.size:
            raise CorruptDataError(
                f"The new file {add.path} has {size} bytes on the store, but {add.size} were "
                "written.",
                hint="Nothing was committed. Write the rows again.",
            )


def _require_present(adds: Sequence[Add], store: ObjectStore) -> list[int]:
    """Return the sizes on the store; a file outside of the table counts as it is recorded."""
    with ThreadPoolExecutor(min(_THREADS, max(len(adds), 1))) as pool:
        sizes = list(pool.map(partial(_stored_size, store), adds))
    gone = [add.path for add, size in zip(adds, sizes, strict=True) if size is None]
    if gone:
        raise CorruptDataError(
            f"{len(gone)} data files that the commit needs are gone, among them {gone[0]}.",
            hint="Restore a newer version, or write the rows again.",
        )
    return [size for size in sizes if size is not None]


def _stored_size(store: ObjectStore, add: Add) -> int | None:
    place = resolve_path(add.path)
    if not isinstance(place, RelativeKey):
        return add.size
    try:
        return store.head(place.key).size
    except ObjectNotFoundError:
        return None
