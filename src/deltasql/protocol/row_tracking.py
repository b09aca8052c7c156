"""Row tracking: the numbers that rows of new files get, known only under the table's lock. Pure.

Every row of the table has an id of its own: the file's `baseRowId` and its place in the file. The
highest id that was ever given away stands in a metadata domain.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec

from deltasql.errors import InvalidCommitError, UnsupportedFeatureError
from deltasql.protocol.actions import Action, Add, DomainMetadata
from deltasql.protocol.properties import read_bool
from deltasql.protocol.stats.parse import parse_stats

FEATURE = "rowTracking"
DOMAIN = "delta.rowTracking"
_ENABLED = "delta.enableRowTracking"
_MARK = "rowIdHighWaterMark"
_NONE_GIVEN = -1


def read_mark(configuration: str | None) -> int:
    """Return the highest id that was given away, as the domain tells it; None is no domain.

    Raises:
        InvalidCommitError: the domain cannot be read.
    """
    if configuration is None:
        return _NONE_GIVEN
    try:
        return int(json.loads(configuration)[_MARK])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidCommitError(f"The metadata domain {DOMAIN} cannot be read.") from error


def refuse_moved_rows(actions: Sequence[Action], configuration: Mapping[str, str]) -> None:
    """Refuse rows that move to new files and would not keep their ids there.

    Raises:
        UnsupportedFeatureError: the table's rows are tracked, and the files do not tell their ids.
    """
    if not read_bool(configuration, _ENABLED):
        return
    adds = [a for a in actions if isinstance(a, Add) and a.base_row_id is None]
    # what a deletion vector leaves of a file are old rows too
    moved = (a.path for a in adds if not a.data_change or a.deletion_vector is not None)
    lost = next(moved, None)
    if lost is not None:
        raise UnsupportedFeatureError(
            f"The table tracks its rows ({_ENABLED}): {lost} would give old rows new ids.",
            hint="Move rows by Delta Spark: deltasql.spark.sql(spark, uri, 'OPTIMIZE …').",
        )


def with_row_ids(actions: Sequence[Action], version: int, mark: int) -> tuple[Action, ...]:
    """Return the actions with ids for the rows of new files, and the mark that follows.

    `mark` is the highest id that was given away before. Files that have their ids keep them.

    Raises:
        InvalidCommitError: a file does not tell how many rows it has, or the mark would fall.
    """
    told = next((a for a in actions if isinstance(a, DomainMetadata) and a.domain == DOMAIN), None)
    highest = mark
    if told is not None:
        highest = read_mark(None if told.removed else told.configuration)
        if highest < mark:
            raise InvalidCommitError(f"The commit would give row ids up to {mark} away again.")
    new: list[Action] = []
    for action in actions:
        if isinstance(action, Add):
            add, highest = _numbered(action, version, highest)
            new.append(add)
        elif action is not told:
            new.append(action)
    if highest == mark:
        return (*new, told) if told is not None else tuple(new)
    text = json.dumps({_MARK: highest}, separators=(",", ":"))
    return (*new, DomainMetadata(configuration=text, domain=DOMAIN, removed=False))


def _numbered(add: Add, version: int, mark: int) -> tuple[Add, int]:
    stats = parse_stats(add.stats)
    rows = None if stats is None else stats.num_records
    if rows is None:
        raise InvalidCommitError(
            f"{add.path} does not tell how many rows it has, which row tracking needs."
        )
    base = mark + 1 if add.base_row_id is None else add.base_row_id
    born = add.default_row_commit_version
    numbered = msgspec.structs.replace(
        add,
        base_row_id=base,
        default_row_commit_version=version if born is None else born,
    )
    return numbered, max(mark, base + rows - 1)
