"""Are the data files that a commit needs still there?"""

from __future__ import annotations

from collections.abc import Iterable
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
    paths = [action.path for action in actions if isinstance(action, Add)]
    with ThreadPoolExecutor(min(_THREADS, max(len(paths), 1))) as pool:
        found = list(pool.map(partial(_is_there, store), paths))
    gone = [path for path, there in zip(paths, found, strict=True) if not there]
    if gone:
        raise CorruptDataError(
            f"{len(gone)} data files that the commit needs are gone, among them {gone[0]}.",
            hint="Restore a newer version, or write the rows again.",
        )


def _is_there(store: ObjectStore, path: str) -> bool:
    found = resolve_path(path)
    if not isinstance(found, RelativeKey):
        return True
    try:
        store.head(found.key)
    except ObjectNotFoundError:
        return False
    return True
