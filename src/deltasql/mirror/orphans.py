"""Objects in a table's folder that no version knows: what failed or aborted writes have left."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from deltasql.catalog.vacuum_book import CHANGE_FOLDER
from deltasql.protocol.files import LOG_FOLDER, STAGED_PREFIX, WRITE_PREFIX
from deltasql.storage.port import ObjectInfo, ObjectStore

_STAGED = re.compile(rf"{STAGED_PREFIX}[0-9a-f]{{32}}")
_OWN = re.compile(
    rf"(?:{_STAGED.pattern}|{WRITE_PREFIX}[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})/"
)
# What Hadoop puts beside a file on local disks.
_CHECKSUM = re.compile(r"(?P<folder>.*/)\.(?P<name>[^/]+)\.crc")


@dataclass(frozen=True, slots=True)
class Orphanage:
    """What a table's folder may hold besides orphans."""

    kept: Container[str]
    before: int
    partition_columns: Sequence[str] = ()
    nested: Sequence[str] = ()


def find_orphans(store: ObjectStore, rules: Orphanage) -> Iterator[ObjectInfo]:
    """Yield the objects that are old enough, not hidden, and needed by nobody.

    In the folders of our own writes by Spark nothing is hidden: what its tasks, its log and its
    checksums have left there has no other owner. Any other folder with a log of its own is another
    table's, whether a catalog knows it or not.
    """
    nested = [f"{folder}/" for folder in rules.nested]
    nested += sorted(_folders_with_a_log(store))
    for info in store.list_from(""):
        if info.modified_ms >= rules.before or info.key in rules.kept:
            continue
        if info.key.startswith(tuple(nested)):
            continue
        if is_hidden(info.key, rules.partition_columns) and not _is_left_by_us(info.key, rules):
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


def _is_left_by_us(key: str, rules: Orphanage) -> bool:
    """Tell whether a hidden object is of a write of ours; a checksum stays with its file."""
    if _OWN.match(key) is None:
        return False
    checksum = _CHECKSUM.fullmatch(key)
    return checksum is None or f"{checksum['folder']}{checksum['name']}" not in rules.kept


def _folders_with_a_log(store: ObjectStore) -> set[str]:
    return set(_owners(info.key for info in store.list_from("")))


def _owners(keys: Iterable[str]) -> Iterator[str]:
    for key in keys:
        folder, mark, _ = key.partition(f"/{LOG_FOLDER}")
        if mark and _STAGED.fullmatch(folder) is None:
            yield f"{folder}/"
