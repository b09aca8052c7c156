"""Buckets that can be switched off for all processes at once; their objects lie in local files.

The tables of a bucket share a store, as they do in a cloud, so that one breaker stands for all.
A bucket is down while the file `<bucket>.down` exists: then every call is refused.
"""

from pathlib import Path
from typing import Any

SCHEME = "memory://"  # the catalog sees a store that is no disk; what it would open is put aside


class Switches:
    """What deltasql.connect takes as `wrap_store`: local files behind a switch per bucket."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def __call__(self, store: Any) -> Any:
        from deltasql.storage.local import LocalStore

        bucket, _, rest = store.uri.removeprefix(SCHEME).partition("/")
        store.close()
        place = self._folder / bucket / rest
        place.mkdir(parents=True, exist_ok=True)
        return SwitchedStore(LocalStore(str(place)), self._folder / f"{bucket}.down")


class SwitchedStore:
    """A store that answers while its bucket is up."""

    def __init__(self, inner: Any, down: Path) -> None:
        from deltasql.testing import Fault, FaultyStore, Kind

        self._inner, self._down = inner, down
        self._refusing = FaultyStore(inner, [Fault(Kind.FAIL_BEFORE, times=None)])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._refusing if self._down.exists() else self._inner, name)


def switch(folder: str, bucket: str, *, is_down: bool) -> None:
    """Take a bucket down, or bring it back."""
    file = Path(folder) / f"{bucket}.down"
    if is_down:
        file.touch()
    else:
        file.unlink()
