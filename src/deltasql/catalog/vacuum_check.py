"""Under the lock: does a request need files that vacuum has deleted or is about to delete?"""

from __future__ import annotations

from collections.abc import Sequence

from deltasql.catalog.commit_request import CommitRequest
from deltasql.catalog.database import BulkWork, Work
from deltasql.catalog.leases import write_purpose
from deltasql.catalog.neighbours import Place, markable_places, purged_places
from deltasql.catalog.objects import is_absolute, keys_below, paths_of
from deltasql.catalog.rows import TableRow
from deltasql.errors import VacuumedError
from deltasql.protocol.actions import Action, Add, Cdc


def check_vacuum(work: Work, row: TableRow, request: CommitRequest) -> None:
    """Refuse what refers to objects that are gone or going.

    Raises:
        VacuumedError: names the version or the file.
    """
    if request.restores is not None:
        refuse_vacuumed(work, row, request.restores)
    if request.work_id is not None and not _is_noted(work, request):
        raise VacuumedError(
            f"The write to {row.full_name} was not heard of for so long that vacuum may have taken "
            "its files for leftovers.",
            hint="Write the rows again.",
            table=row.full_name,
        )
    _check_actions(work, row, request.actions)


def _check_actions(work: Work, row: TableRow, actions: Sequence[Action]) -> None:
    adds = [action for action in actions if isinstance(action, Add)]
    paths = [path for add in adds for path in paths_of(add.path, add.deletion_vector)]
    check_paths(work, row, paths, [one.path for one in actions if isinstance(one, Cdc)])


def check_paths(
    work: Work | BulkWork, row: TableRow, paths: Sequence[str], cdc: Sequence[str]
) -> None:
    """Refuse files of adds and of change data that are gone or going.

    Raises:
        VacuumedError: names the file.
    """
    place = Place(row.table_id, row.location, row.location_key)
    if row.is_vacuuming:
        _refuse_marked(work, place, [*paths, *cdc], own=True)
    outside = [path for path in paths if is_absolute(path)]
    if outside:
        _check_neighbours(work, place, outside)


def _is_noted(work: Work, request: CommitRequest) -> bool:
    purpose = write_purpose(str(request.work_id))
    return bool(work.rows("open_work", table_id=request.table_id, purpose=purpose))


def refuse_vacuumed(work: Work, row: TableRow, version: int) -> None:
    """Refuse a version whose files vacuum has deleted.

    Raises:
        VacuumedError: some of them are gone.
    """
    count, at = work.rows("vacuumed_of_version", table_id=row.table_id, version=version)[0]
    if count:
        raise VacuumedError(
            f"Version {version} of {row.full_name} cannot be read any more: vacuum deleted "
            f"{count} of its files.",
            table=row.full_name,
            version=version,
            vacuumed_at=at,
        )


def _check_neighbours(work: Work | BulkWork, place: Place, paths: Sequence[str]) -> None:
    """A vacuum or a purge of the tables the paths lie in waits for this commit, or is seen."""
    for other in markable_places(work, place):
        if any(keys_below((other.location, other.location_key), paths, own=False)):
            work.rows("share_table", table_id=other.table_id)
            _refuse_marked(work, other, paths, own=False)
    for purged in purged_places(work):
        for key in keys_below((purged.location, purged.location_key), paths, own=False):
            raise VacuumedError(
                f"The file {key} at {purged.location} belonged to a table that was purged.",
                hint="Write the rows again to a new file.",
                key=key,
            )


def _refuse_marked(work: Work | BulkWork, place: Place, paths: Sequence[str], *, own: bool) -> None:
    keys = list(keys_below((place.location, place.location_key), paths, own=own))
    found = work.rows("marked_keys", table_id=place.table_id, keys=keys) if keys else []
    if found:
        raise VacuumedError(
            f"The file {found[0][0]} is being deleted by vacuum.",
            hint="Write the rows again to a new file.",
            key=found[0][0],
        )
