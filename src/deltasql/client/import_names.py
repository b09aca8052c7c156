"""What an imported table is called when nobody says so. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from deltasql.errors import BadArgumentError
from deltasql.storage.location import parse_location


def name_of(source: str) -> str:
    """Return the name of the folder that a table lies in; a dot in it becomes an underscore.

    Raises:
        BadArgumentError: the source is no folder but the root of a store.
    """
    folder = parse_location(source).path.strip("/").rpartition("/")[2]
    if not folder:
        raise BadArgumentError(
            f"The source {source} has no folder name to call the table by.",
            hint="Give the table's name with `name=`.",
        )
    return _plain(folder)


def lake_names(root: str, folders: Iterable[str]) -> dict[str, str]:
    """Return a name for every table folder below a root: `a/b/c` is called `a.b.c`.

    The last part is the table's name, the parts before it its namespace. The root itself, if it
    is a table, is called after its own folder.
    """
    return {
        folder: ".".join(map(_plain, folder.split("/"))) if folder else name_of(root)
        for folder in folders
    }


def colliding(names: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the names that several folders would have, with the folders."""
    often = {name for name, count in Counter(names.values()).items() if count > 1}
    return {name: [f for f, n in names.items() if n == name] for name in sorted(often)}


def _plain(folder: str) -> str:
    # the last dot of a table's name divides namespace and name
    return folder.replace(".", "_").strip() or "_"
