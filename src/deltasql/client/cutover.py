"""Let SQL take over the log of an imported table."""

from __future__ import annotations

from deltasql.catalog.rows import TableRow
from deltasql.client.imports import ImportOptions, TableImport
from deltasql.client.validate import Verdict, verdict_of
from deltasql.errors import ImportDifferenceError, UnsafeStoreError
from deltasql.importer.cutover import CutOver, Cutover
from deltasql.importer.inheritance import inherit
from deltasql.runtime.connection import Connection
from deltasql.storage.selfcheck import StoreVerdict, check_conditional_put


def cut_over(
    connection: Connection, name: str, *, fence: bool = True, follow: bool = False
) -> CutOver:
    """Take over the log of a table; from then on it takes commits through SQL only.

    With `follow`, what others have committed since the import is taken along.

    Raises:
        ImportDifferenceError: the import is not what its log says, and nobody has accepted that.
        CutoverError: the import is behind the log and `follow` is not told, or others are always
            faster.
        UnsafeStoreError: the store ignores the conditions that decide the race.
    """
    row = _require_equal(connection.metastore.table(name))
    store = connection.store_of(row)
    if check_conditional_put(store, connection.new_id()) is StoreVerdict.IGNORES:
        raise UnsafeStoreError(
            f"The store of {store.uri} ignores conditions: the log cannot be taken over safely."
        )

    def catch_up(upto: int | None) -> TableRow:
        options = ImportOptions(resume=True, up_to_version=upto, ends_claim=upto is not None)
        return _require_equal(TableImport(connection, row.location, name, options).run().row)

    inherit(connection.metastore.database, row, store)
    done = Cutover(
        connection.metastore,
        store,
        catch_up,
        connection.new_id,
        connection.now_ms,
        fence=fence,
        follow=follow,
        committer=connection.user.name,
    ).run(row)
    # once more: a writer that was faster may have left more
    inherit(connection.metastore.database, done.row, store)
    connection.ownership.forget(row.table_id)
    return done


def _require_equal(row: TableRow) -> TableRow:
    """Return the row of a table that is what its log says, as far as anybody has looked."""
    if verdict_of(row) is Verdict.DIFFERENT:
        again = f"`catalog.imports.validate({row.location!r}, name={row.full_name!r})`"
        raise ImportDifferenceError(
            f"The import of {row.full_name} differs from its log; it cannot be cut over.",
            hint=f"{again} shows the differences; with `accept_differences=True` it accepts "
            "them. `force=True` imports the table again.",
            table=row.full_name,
        )
    return row
