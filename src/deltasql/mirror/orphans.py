"""Objects in a table's folder that no version knows: what failed or aborted writes have left."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from deltasql.protocol.files import LOG_FOLDER, STAGED_PREFIX
from deltasql.storage.port import ObjectInfo, ObjectStore

CHANGE_FOLDER = "_change_data/"
_STAGED = re.compile(rf"{STAGED_PREFIX}[0-9a-f]{{32}}")


@dataclass(frozen=True, slots=True)
class Orphanage:
    """What a table's folder may hold besides orphans."""

    kept: Container[str]
    before: int
    partition_columns: Sequence[str] = ()
    nested: Sequence[str] = ()


def find_orphans(store: ObjectStore, rules: Orphanage) -> Iterator[ObjectInfo]:
    """Yield the objects that are old enough, not hidden, and needed by nobody.

    A folder with a log of its own is another table's, whether a catalog knows it or not, unless
    it is the staged log of a transaction that died: then what it wrote is nobody's.
    """
    nested = [f"{folder}/" for folder in rules.nested]
    nested += sorted(_folders_with_a_log(store))
    for info in store.list_from(""):
        if info.modified_ms >= rules.before or info.key in rules.kept:
            continue
        if is_hidden(info.key, rules.partition_columns) or info.key.startswith(tuple(nested)):
            continue
        yield info


def is_hidden(key: str, partition_columns: Sequence[str]) -> bool:
    """Tell whether a key is none of the table's data by Delta's naming rule.

    Names that begin with a dot or an underscore are hidden, except the folder of change data and
    folders of partition columns that are called so.
    """
    shown = tuple(f"{column}=" for column in partition_columns)
    segments = key.removeprefix(CHANGE_FOLDER).split("/")
    return any(
        segment.startswith((".", "_")) and not segment.startswith(shown or ("\0",))
        for segment in segments
    )


def _folders_with_a_log(store: ObjectStore) -> set[str]:
    return set(_owners(info.key for info in store.list_from("")))


def _owners(keys: Iterable[str]) -> Iterator[str]:
    for key in keys:
        folder, mark, _ = key.partition(f"/{LOG_FOLDER}")
        if mark and _STAGED.fullmatch(folder) is None:
            yield f"{folder}/"
