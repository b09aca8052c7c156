"""Others who knew the old numbers of a table: writers, mirrors, vacuum, operators."""

import pytest

import deltasql
from builders import NO_MIRROR, a_table, an_add, rows
from contests import check_settled, contest, state_of
from deltasql.catalog.leases import Leases
from deltasql.catalog.vacuum_book import VacuumBatch, VacuumBook
from deltasql.errors import CommitConflictError, OwnershipError
from deltasql.parity.log import Difference
from deltasql.protocol.codec import digest
from deltasql.testing.invariants import check_invariants


@pytest.fixture
def catalog(catalog_uri):
    with deltasql.connect(catalog_uri, committer="ada") as opened:
        yield opened


@pytest.fixture
def table(catalog, tmp_path):
    made = a_table(catalog, tmp_path)
    made.append(rows(1))
    return made


def test_a_reader_of_the_old_numbers_cannot_commit_what_it_planned(catalog, table, catalog_uri):
    """It read version 2 as ours; version 2 is another one now, with a file it never saw."""
    contest(table)
    with deltasql.connect(catalog_uri) as other:
        tx = other.transaction()
        staged = tx.table("orders")
        staged.delete("day = 'a'")
        blind = other.transaction()
        blind.table("orders").commit([an_add("blind", day="b")])
        catalog.mirror.repair("orders", adopt=True)
        with pytest.raises(CommitConflictError, match="renumbered"):
            tx.commit()
        assert blind.commit() == {"orders": 4}
        assert other.table("orders").delete("day = 'b'") == 5
    check_invariants(catalog, "orders")


def test_a_put_of_the_old_bytes_that_ends_late_records_nothing(catalog, table):
    contest(table)
    engine = catalog._session.engine
    stale, old = table.refresh(), catalog._session.book.payload(table.table_id, 2)
    catalog.mirror.repair("orders", adopt=True)
    # the attempt was under way: it finds the foreign bytes, and that SQL has them by now
    result = engine.mirror_version(stale, 2, old)
    assert (str(result.outcome.value), table.state) == ("already", "active")
    tracker = engine.tracker
    written = {"json_written": True, "checkpoint_written": False, "now": 1}
    assert tracker.mark_success(table.table_id, 4, **written, digest=digest(old)) is None
    table._session.settings = NO_MIRROR
    table.append(rows(20))
    assert tracker.mark_success(table.table_id, 4, **written, digest=digest(old)) is None
    assert tracker.mark_range(table.table_id, 4, 4, now=1, digest=digest(old)) is None
    assert table.refresh().mirrored_through == 3
    check_settled(catalog, table)


def test_the_plan_tells_both_sides_and_changes_nothing(catalog, table):
    contest(table)
    before = state_of(catalog, table)
    found = catalog.mirror.verify("orders")[0]
    assert found.difference is Difference.FOREIGN_COMMIT
    assert "FOREIGN by mallory, 1 added (1 rows), 0 removed" in found.detail
    assert "WRITE by ada, 1 added (1 rows), 0 removed" in found.detail
    plan = catalog.mirror.repair("orders", adopt=True, dry_run=True)
    assert [one.what for one in plan] == [
        "becomes version 2 of SQL",
        "version 2 becomes version 3",
    ]
    assert state_of(catalog, table) == before


def test_a_vacuum_that_was_planned_before_deletes_nothing(catalog, table):
    """The foreign files, which it takes for leftovers, are live now under numbers it has passed."""
    contest(table)
    session = catalog._session
    leases = Leases(session.book.database, "vacuum")
    vacuum = VacuumBook(session.book.database, leases, session.book.identity.epoch)
    row = table.refresh()
    horizon = vacuum.horizon(row, cutoff=0, orphans_before=2**60)
    lease = leases.acquire(row.table_id, "vacuum")
    catalog.mirror.repair("orders", adopt=True)
    batch = VacuumBatch(frozenset({"day=a/foreign-100.parquet"}))
    with pytest.raises(OwnershipError, match="renumbered"):
        vacuum.mark(lease, row, horizon, batch)
    check_settled(catalog, table)
