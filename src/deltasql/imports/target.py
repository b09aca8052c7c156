"""Where an import goes: its name, its table row, and whether it may begin or go on there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deltasql.errors import (
    BadArgumentError,
    NotResumableError,
    ObjectNotFoundError,
    OwnershipError,
    TableExistsError,
)
from deltasql.imports.plan.import_plan import ImportPlan, read_plan
from deltasql.log.commits import read_segment
from deltasql.log.owner_marker import read_owner
from deltasql.log.table_rules import read_rules
from deltasql.metastore.log_state import noted_claim
from deltasql.metastore.table_row import NewTable, TableRow, TableState
from deltasql.protocol.codec import digest
from deltasql.protocol.log_names import commit_key
from deltasql.runtime.connection import Connection
from deltasql.storage.location import parse_location
from deltasql.storage.port import ObjectStore

if TYPE_CHECKING:
    from deltasql.imports.job import ImportOptions

# In import_metadata: the version that the history was asked to begin at.
FROM_VERSION = "from_version"
_GOING_ON = (TableState.IMPORTING, TableState.READ_ONLY)


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


@dataclass(frozen=True, slots=True)
class Target:
    """The row to load into: `row` if it is there already, else `new`; what it replaces then."""

    new: NewTable
    row: TableRow | None = None
    replaces: str | None = None


def find_target(
    connection: Connection, place: NewTable, plan: ImportPlan, options: ImportOptions
) -> Target:
    """Decide where an import goes.

    Raises:
        TableExistsError: the name or the place is taken.
        NotResumableError: nothing was begun, or not with this source.
        OwnershipError: another catalog manages the log.
    """
    found = existing(connection, place)
    store = connection.store_at(place.location)
    _refuse_managed(connection, store, found)
    new = replace(place, table_id=connection.new_id())
    if found is None:
        if options.resume:
            raise NotResumableError(
                f"There is no import of {place.location} to go on with.",
                hint="Run the import without `resume=True`.",
            )
        return Target(new)
    if options.resume:
        require_same_source(connection, found, place, plan, store, ends_claim=options.ends_claim)
        return Target(replace(new, table_id=found.table_id), found)
    if options.force:
        aside = f"{place.name}--import-{new.table_id[:8]}"
        moved = replace(new, name=aside, location_key=_aside(place, new.table_id))
        return Target(moved, None, found.table_id)
    raise TableExistsError(
        f"There is a table {found.full_name} at {found.location} already, in state {found.state}.",
        hint="`resume=True` goes on with an import, `force=True` replaces the table, `name=` takes "
        "another.",
        table=found.full_name,
    )


def resume_options(
    connection: Connection, place: NewTable, options: ImportOptions
) -> tuple[ImportOptions, TableRow | None]:
    """Return the options with what the import was begun with, and its table if there is one.

    Raises:
        NotResumableError: it was begun with another oldest version.
        BadArgumentError: options contradict each other.
    """
    wanted = options.plan.from_version
    row = existing(connection, place) if options.resume else None
    if row is None or row.state not in _GOING_ON:
        return options, None
    begun = row.properties.get("import_metadata", {}).get(FROM_VERSION)
    if wanted is not None and wanted != (begun or 0):
        span = "all versions" if begun is None else f"the versions from {begun} on"
        raise NotResumableError(
            f"The import of {row.full_name} was begun with {span}; it does not go on with those "
            f"from {wanted} on.",
            hint="Resume it without a first version, or import it again with `force=True`.",
            table=row.full_name,
        )
    return replace(options, from_version=begun), row


def plan_import(store: ObjectStore, row: TableRow | None, options: ImportOptions) -> ImportPlan:
    """Return what an import will read of a log; `row` is the table that it was begun with.

    Raises:
        LogGapError, MalformedActionError, VersionNotFoundError: see `read_plan`.
    """
    want = options.plan
    if want.from_version and row is not None and row.current_version >= row.first_version:
        # SQL has the state that the next version needs: what the log has lost before is no gap
        return read_plan(store, replace(want, from_version=None, lenient=True))
    return read_plan(store, want)


def require_same_source(
    connection: Connection,
    row: TableRow,
    place: NewTable,
    plan: ImportPlan,
    store: ObjectStore,
    *,
    ends_claim: bool,
) -> None:
    """Make sure that the source is the log that the table came from, only longer.

    Raises:
        NotResumableError: says what differs.
    """
    if row.state is TableState.DETACHED:
        raise NotResumableError(
            f"Table {row.full_name} was detached; its import does not go on.",
            hint="`force=True` imports the table anew, `name=` takes another name.",
            table=row.full_name,
        )
    if row.state not in _GOING_ON:
        raise NotResumableError(
            f"Table {row.full_name} is {row.state}: its log is written by this catalog, there is "
            "nothing to import.",
            table=row.full_name,
        )
    if row.location_key != place.location_key:
        raise NotResumableError(
            f"Table {row.full_name} came from {row.location}, not from {place.location}.",
            table=row.full_name,
        )
    if noted_claim(connection.metastore.database, row.table_id) is not None and not ends_claim:
        raise NotResumableError(
            f"A cut-over of {row.full_name} was begun and not ended.",
            hint=f"Run `deltasql cutover {row.full_name}`: it ends what was begun.",
            table=row.full_name,
        )
    database = connection.metastore.database
    if database.fetch_all("count_native_versions", table_id=row.table_id)[0][0]:
        raise NotResumableError(
            f"Table {row.full_name} has commits of its own; an import cannot go on behind them.",
            table=row.full_name,
        )
    if row.current_version < row.first_version:
        return
    _require_same_bytes(connection, row, store)
    if plan.head > row.current_version and plan.commits.find(row.current_version + 1) is None:
        raise NotResumableError(
            f"The log of {row.full_name} has no commit {row.current_version + 1}, which must come "
            f"next; it now begins at version {plan.first}.",
            hint="The source's cleanup was faster; import it again with `force=True`.",
            table=row.full_name,
        )
    if plan.head < row.current_version:
        raise NotResumableError(
            f"The log of {row.full_name} ends at {plan.head}, before version "
            f"{row.current_version} that SQL has.",
            table=row.full_name,
        )


def _require_same_bytes(connection: Connection, row: TableRow, store: ObjectStore) -> None:
    """Compare the newest version that SQL has; where the log no longer has it, the table's id."""
    version = row.current_version
    known = connection.metastore.digests(row.table_id, version, version)[version]
    try:
        same = digest(store.get(commit_key(version))) == known
    except ObjectNotFoundError:
        snapshot = connection.metastore.snapshot(row.table_id, version=version)
        same = read_rules(store, read_segment(store)).metadata.id == snapshot.metadata.id
    if not same:
        raise NotResumableError(
            f"Version {version} at {row.location} is not the one that {row.full_name} has: the "
            "source is another table.",
            table=row.full_name,
            version=version,
        )


def abandoned_forced_imports(connection: Connection, place: NewTable) -> list[TableRow]:
    """Return what imports by force have left that died before they replaced a table."""
    return [
        row
        for row in connection.metastore.tables()
        if row.state is TableState.IMPORTING and row.location_key == _aside(place, row.table_id)
    ]


def _aside(place: NewTable, table_id: str) -> str:
    """Return what stands for the place until the table that is replaced lets it go."""
    return f"{place.location_key}#{table_id}"


def existing(connection: Connection, place: NewTable) -> TableRow | None:
    """Return the table that has the name or the place of an import, if there is one.

    Raises:
        TableExistsError: one has the name and another one the place.
    """
    full_name = f"{place.namespace}.{place.name}" if place.namespace else place.name
    found = connection.metastore.find_table(full_name)
    there = connection.metastore.table_at(place.location_key)
    if found is not None and there is not None and found.table_id != there.table_id:
        raise TableExistsError(
            f"The location {place.location} belongs to table {there.full_name}.",
            hint="Import under that name, or drop it first.",
            table=there.full_name,
        )
    return found or there


def _refuse_managed(connection: Connection, store: ObjectStore, found: TableRow | None) -> None:
    owner = read_owner(store)
    if owner is None:
        return
    if owner.catalog_id != connection.metastore.identity.catalog_id:
        raise OwnershipError(
            f"The log at {store.uri} is managed by catalog {owner.catalog_id}.",
            hint="Detach the table there first, or bring it back with "
            "`catalog.mirror.rebuild` if that catalog is lost.",
        )
    is_free = found is None and connection.metastore.is_dropped(owner.table_id)
    if not is_free and (found is None or found.state not in _GOING_ON):
        raise TableExistsError(
            f"The log at {store.uri} is managed by this catalog already.",
            hint="There is nothing to import; see `deltasql tables`.",
        )
