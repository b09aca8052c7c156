"""`mirror verify` finds whatever is wrong with a log; `mirror repair` makes it right again."""

import random
from pathlib import Path

import pytest

import deltasql
from builders import a_table, an_add, rows, some
from deltasql.metastore.log_state import LogFiles
from deltasql.mirror import compare as log_parity
from deltasql.mirror.compare import Difference, VerifyThrottle, compare_log
from deltasql.protocol.log_names import LAST_CHECKPOINT, checkpoint_path, commit_key
from deltasql.testing import inspect
from deltasql.testing.invariants import check_invariants

SEED = 20261116


@pytest.fixture
def table(catalog, tmp_path):
    made = a_table(catalog, tmp_path)
    for number in range(12):
        made.append(rows(number))
    catalog.mirror.checkpoint("orders", 10)
    return made


def log_of(table) -> Path:
    return Path(table.location.removeprefix("file://"))


@pytest.fixture
def at_once(monkeypatch):
    """A wrong hint is looked at again after a while, because a writer may be about to move it."""
    monkeypatch.setattr(log_parity, "_PAUSE_S", 0.0)


def kinds(catalog) -> list[Difference]:
    return [found.difference for found in catalog.mirror.verify("orders")]


def test_an_untouched_log_is_equal(catalog, table):
    assert catalog.mirror.verify("orders") == []
    assert catalog.mirror.repair("orders") == []


def _flip(catalog, table, chance: random.Random, flips: int) -> None:
    """Change a byte of a file of the log, again and again; each time that file is named."""
    files = sorted((log_of(table) / "_delta_log").iterdir())
    assert {"_deltasql", "_last_checkpoint"} < {file.name for file in files}
    assert len(files) >= 16
    for turn in range(flips):
        # every file once, then at random
        file = files[turn] if turn < len(files) else chance.choice(files)
        good = file.read_bytes()
        at, other = chance.randrange(len(good)), chance.randrange(1, 256)
        file.write_bytes(good[:at] + bytes([good[at] ^ other]) + good[at + 1 :])
        found = catalog.mirror.verify("orders")
        assert [one.key for one in found] == [f"_delta_log/{file.name}"], (SEED, at, other)
        file.write_bytes(good)
    assert catalog.mirror.verify("orders") == []


@pytest.mark.req("R34")
@pytest.mark.usefixtures("at_once")
def test_a_byte_flipped_anywhere_is_found(catalog, table):
    """Commits, checkpoints, the hint, and the marker that tells whose log it is."""
    _flip(catalog, table, random.Random(SEED), flips=40)


@pytest.mark.verify
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("seed", range(5))
def test_many_flipped_bytes_are_found(catalog, table, seed):
    _flip(catalog, table, random.Random(SEED + seed), flips=150)


def test_a_damaged_marker_is_left_to_the_operator(catalog, catalog_uri, table):
    marker = log_of(table) / "_delta_log" / "_deltasql"
    good = marker.read_bytes()
    marker.write_bytes(good[:-9])
    assert kinds(catalog) == [Difference.WRONG_OWNER]
    assert [one.done for one in catalog.mirror.repair("orders")] == [False]
    assert marker.read_bytes() == good[:-9]
    catalog.new_epoch()
    with deltasql.connect(catalog_uri) as again:
        again.mirror.recover("orders")
        assert kinds(again) == []
        check_invariants(again, "orders")


@pytest.mark.req("R35")
def test_what_is_missing_is_put_again(catalog, table):
    for key in (commit_key(3), commit_key(12), checkpoint_path(10), LAST_CHECKPOINT):
        (log_of(table) / key).unlink()
    assert kinds(catalog) == [
        Difference.MISSING_COMMIT,
        Difference.MISSING_COMMIT,
        Difference.MISSING_FILE,
        Difference.LAST_CHECKPOINT_WRONG,
    ]
    plan = catalog.mirror.repair("orders", dry_run=True)
    assert all(one.done for one in some(plan))
    assert len(kinds(catalog)) == 4
    assert all(one.done for one in some(catalog.mirror.repair("orders")))
    assert kinds(catalog) == []
    check_invariants(catalog, "orders")


def test_one_version_alone_can_be_repaired(catalog, table):
    for version in (3, 5):
        (log_of(table) / commit_key(version)).unlink()
    catalog.mirror.repair("orders", version=5)
    assert [found.version for found in catalog.mirror.verify("orders")] == [3]


@pytest.mark.req("R28")
def test_foreign_bytes_go_only_by_the_operators_word_and_are_kept(catalog, table):
    foreign = b'{"commitInfo":{"timestamp":1}}\n'
    file = log_of(table) / commit_key(7)
    file.write_bytes(foreign)
    assert kinds(catalog) == [Difference.COMMIT_BYTES_DIFFER]
    assert [one.done for one in catalog.mirror.repair("orders")] == [False]
    assert file.read_bytes() == foreign
    (done,) = catalog.mirror.repair("orders", replace=True)
    assert done.done
    saved = list((log_of(table) / "_delta_log" / "_deltasql_saved").iterdir())
    assert [one.read_bytes() for one in saved] == [foreign]
    assert kinds(catalog) == []


@pytest.mark.req("R87")
def test_a_foreign_commit_above_sql_is_shown_and_never_replaced(catalog, table):
    file = log_of(table) / commit_key(13)
    file.write_bytes(b'{"commitInfo":{"timestamp":1}}\n')
    assert kinds(catalog) == [Difference.COMMIT_NOT_IN_CATALOG]
    assert [one.done for one in catalog.mirror.repair("orders", replace=True)] == [False]
    assert file.exists()


def test_a_conflict_is_settled_by_replacing_and_commits_go_on(catalog, table):
    file = log_of(table) / commit_key(13)
    file.write_bytes(b'{"commitInfo":{"timestamp":1}}\n')
    table.commit([an_add("ours")])
    assert table.state == "conflict"
    assert Difference.COMMIT_CONFLICT in kinds(catalog)
    assert all(one.done for one in some(catalog.mirror.repair("orders", replace=True)))
    assert table.state == "active"
    assert table.commit([an_add("next")]) == 14
    check_invariants(catalog, "orders")
    assert kinds(catalog) == []


def test_what_stands_on_a_contested_commit_is_settled_with_it(catalog, table):
    for version in (13, 14):
        foreign = f'{{"commitInfo":{{"timestamp":{version},"isBlindAppend":true}}}}\n'
        (log_of(table) / commit_key(version)).write_text(foreign)
    table.commit([an_add("ours")])
    assert kinds(catalog) == [Difference.COMMIT_CONFLICT, Difference.COMMIT_NOT_IN_CATALOG]
    assert [one.done for one in catalog.mirror.repair("orders")] == [False, False]
    done = catalog.mirror.repair("orders", recommit=True)
    assert [one.done for one in done] == [True, True]
    assert (table.version, table.state) == (15, "active")
    check_invariants(catalog, "orders")
    assert kinds(catalog) == []


def test_strangers_are_listed(catalog, table):
    (log_of(table) / "_delta_log" / "notes.txt").write_text("hello")
    (log_of(table) / checkpoint_path(11)).write_bytes(b"PAR1")
    assert kinds(catalog) == [Difference.FOREIGN_FILE] * 2
    assert [one.done for one in catalog.mirror.repair("orders")] == [False] * 2


def test_a_right_checkpoint_that_nobody_recorded_is_no_stranger(catalog, table):
    """Its worker died between the put and the record."""
    catalog.mirror.checkpoint("orders", 11)
    database = inspect(catalog).database
    with database.write() as tx:
        text = "delete from dl_log_files where version = 11"
        tx.connection.execute(text if database.dialect.name == "sqlite" else text.encode())
    assert kinds(catalog) == [
        Difference.LAST_CHECKPOINT_WRONG
    ]  # it names one that SQL does not know of
    catalog.mirror.repair("orders")
    assert kinds(catalog) == []


def test_a_hint_at_a_checkpoint_that_is_not_there_is_wrong(catalog, table):
    hint = log_of(table) / LAST_CHECKPOINT
    good = hint.read_bytes()
    hint.write_bytes(b'{"version":11,"size":3}\n')
    assert kinds(catalog) == [Difference.LAST_CHECKPOINT_WRONG]
    catalog.mirror.repair("orders")
    assert hint.read_bytes() == good


def test_a_hint_that_is_about_to_be_moved_is_no_difference(catalog, table):
    """A checkpoint is recorded before its hint is put: a comparison may come in between."""
    hint = log_of(table) / LAST_CHECKPOINT
    older = hint.read_bytes()
    catalog.mirror.checkpoint("orders", 11)
    newer = hint.read_bytes()
    hint.write_bytes(older)
    metastore = inspect(catalog).metastore
    paused = []

    def pause(seconds):
        paused.append(seconds)
        hint.write_bytes(newer)

    found = compare_log(
        metastore,
        LogFiles(metastore.database),
        metastore.table("orders"),
        table.store,
        VerifyThrottle(pause=pause),
    )

    assert found == []
    assert len(paused) == 1
