"""Pure: fold the file actions of versions in a row, so that each file is written once.

Within one commit removes count before adds, as everywhere in the house.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from deltasql.errors import MalformedActionError
from deltasql.protocol.actions import Add, Remove
from deltasql.protocol.identity import path_key

# The path alone where a file has no vector: most have none, and a tuple costs.
Key: TypeAlias = str | tuple[str, str]
_ABSOLUTE = ("/", "file:")


@dataclass(slots=True)
class Fold:
    """Files by the events of a window; `apply` takes the next version.

    `births` and `is_first` run beside `adds`; `ends` tells by number which of them ended, when,
    and by which remove (None: superseded by an add of the same key).
    """

    lenient: bool = False
    adds: list[Add] = field(default_factory=list)
    births: list[int] = field(default_factory=list)
    is_first: list[bool] = field(default_factory=list)
    ends: dict[int, tuple[int, Remove | None]] = field(default_factory=dict)
    endings: list[tuple[int, Remove]] = field(default_factory=list)
    tombstones: list[tuple[int, Remove]] = field(default_factory=list)
    _live: dict[Key, int] = field(default_factory=dict)
    _gone: dict[Key, int] = field(default_factory=dict)

    def apply(self, version: int, adds: Sequence[Add], removes: Iterable[Remove]) -> None:
        """Take the files of one commit.

        Raises:
            MalformedActionError: it speaks twice of one file, which only `lenient` accepts.
        """
        for remove in removes:
            self._remove(version, remove)
        live, gone, births = self._live, self._gone, self.births
        number = len(self.adds)
        for add in adds:
            path = add.path
            plain = add.deletion_vector is None and not path.startswith(_ABSOLUTE)
            key: Key = path if plain else _key(add)
            before = live.get(key)
            if before is not None:
                if births[before] == version:
                    self._twice(version, "adds", add.path)
                self.ends[before] = (version, None)
            elif gone and gone.get(key) == version:
                self._twice(version, "adds and removes", add.path)
            self.is_first.append(before is None and key not in gone)
            live[key] = number
            births.append(version)
            number += 1
        self.adds += adds

    def _remove(self, version: int, remove: Remove) -> None:
        key = _key(remove)
        ended = self._live.pop(key, None)
        before = self._gone.get(key)
        self._gone[key] = version
        if ended is not None:
            self.ends[ended] = (version, remove)
            return
        if before == version:
            self._twice(version, "removes", remove.path)
        (self.endings if before is None else self.tombstones).append((version, remove))

    def _twice(self, version: int, verb: str, path: str) -> None:
        if not self.lenient:
            raise MalformedActionError(
                f"Version {version} {verb} {path} more than once.",
                hint="The protocol forbids it; --lenient takes the last add, else the remove.",
                version=version,
                path=path,
            )


def _key(action: Add | Remove) -> Key:
    path = action.path
    if path.startswith(_ABSOLUTE):
        path = path_key(path)
    return path if action.deletion_vector is None else (path, action.dv_id)
