"""Whose objects lie in a table's folder: its own, and those of tables around it.

A shallow clone names files by their absolute paths; a table whose folder holds another's may name
files in there by relative ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from deltasql.catalog.database import BulkWork, Work
from deltasql.catalog.objects import keys_below, paths_of
from deltasql.storage.location import parse_location


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table lies, in the spelling it was given and in the one that all spellings share."""

    table_id: str
    location: str
    location_key: str

    def inside(self, other: Place) -> str | None:
        """Return this place's path below another's, or None where it is not below it."""
        above, below = parse_location(other.location_key), parse_location(self.location_key)
        if not above.holds(below) or below.holds(above):
            return None
        return below.path.removeprefix(above.path).strip("/")


def own_keys(place: Place, files: Iterable[tuple[str, str | None]]) -> Iterator[str]:
    """Yield the keys of a table's own files, given as paths and vectors."""
    for path, vector in files:
        yield from keys_below(_roots(place), paths_of(path, vector), own=True)


def neighbours_keys(work: Work, place: Place) -> Iterator[str]:
    """Yield the keys in this place that other tables of the catalog refer to."""
    for path, vector in work.rows("absolute_paths", table_id=place.table_id):
        yield from keys_below(_roots(place), paths_of(path, vector), own=False)
    for other in other_places(work, place):
        folder = place.inside(other)
        if folder is not None:
            files = work.rows("all_paths", table_id=other.table_id)
            for key in own_keys(other, files):
                if key.startswith(f"{folder}/"):
                    yield key.removeprefix(f"{folder}/")


def nested_folders(work: Work, place: Place) -> list[str]:
    """Return the folders in this place that belong to other tables of the catalog."""
    found = (other.inside(place) for other in other_places(work, place))
    return [folder for folder in found if folder is not None]


def other_places(work: Work | BulkWork, place: Place) -> list[Place]:
    """Return where the catalog's other tables lie."""
    return _places(work.rows("table_places", table_id=place.table_id))


def markable_places(work: Work | BulkWork, place: Place) -> list[Place]:
    """Return where vacuum has marked objects, or may: in other tables, and in dropped ones."""
    return _places(work.rows("markable_places", table_id=place.table_id))


def purged_places(work: Work | BulkWork) -> list[Place]:
    """Return where purged tables lay and no table of the catalog lies now."""
    return _places(work.rows("purged_places"))


def _places(rows: list[tuple[Any, ...]]) -> list[Place]:
    return [Place(str(table_id), location, key) for table_id, location, key in rows]


def _roots(place: Place) -> tuple[str, ...]:
    return tuple(dict.fromkeys((place.location, place.location_key)))
