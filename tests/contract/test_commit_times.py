"""Time travel goes by the time of each commit, also where logs of others go back in time."""

import json
import os
import sqlite3
from contextlib import closing

import pytest

import deltasql
from builders import a_table, rows
from deltasql.errors import MalformedActionError, VersionNotFoundError
from deltasql.imports.job import ImportOptions, TableImport
from deltasql.imports.read import tasks
from deltasql.metastore.snapshot.snapshot import version_at
from deltasql.protocol.log_names import commit_key
from deltasql.testing import inspect
from foreign import a_foreign_file, put_foreign
from histories import START, History

VERSIONS = 12
# Seconds after START. None: the commit tells no time, and that of its file counts.
OWN_TIMES = {
    "rising": [None] * 6 + [60, 61, 62, 63, 64, 65],
    "copied, then turned on": [None] * 6 + [2, 3, 4, 5, 6, 100],
    "to and fro": [50, 10, 50, 20, None, 5, 5, 90, None, 1, 2, 70],
}


def write_log(root, own_times) -> None:
    history = History(1, versions=VERSIONS)
    for version, seconds in enumerate(own_times):
        if seconds is not None:
            first, *rest = history.commits[version].splitlines(keepends=True)
            info = json.loads(first)
            info["commitInfo"]["inCommitTimestamp"] = START + int(1000 * seconds)
            history.commits[version] = b"".join([json.dumps(info).encode() + b"\n", *rest])
    history.write(root)
    for version in range(VERSIONS):
        os.utime(root / commit_key(version), (START // 1000 + 30, START // 1000 + 30))


def require_exact(table) -> None:
    """Every time gives the newest version that is not later, found by looking at all."""
    times = {entry.version: entry.committed_at for entry in table.history()}
    for moment in sorted({time + step for time in times.values() for step in (-1, 0, 1)}):
        expected = [version for version, time in times.items() if time <= moment]
        if expected:
            assert table.snapshot(timestamp=moment).version == max(expected), moment
        else:
            with pytest.raises(VersionNotFoundError, match="younger"):
                table.snapshot(timestamp=moment)
    for version, time in times.items():
        assert table.snapshot(version=version).timestamp == time


@pytest.mark.parametrize("window", [1, 5, 1000])
@pytest.mark.parametrize("name", OWN_TIMES)
def test_an_imported_log_is_read_at_every_time(catalog_uri, tmp_path, monkeypatch, name, window):
    monkeypatch.setattr(tasks, "TASK_VERSIONS", window)
    own_times = OWN_TIMES[name]
    write_log(tmp_path / "t", own_times)
    with deltasql.connect(catalog_uri) as catalog:
        catalog.create_if_missing()
        TableImport(
            catalog._lazy.create().connection, str(tmp_path / "t"), "t", ImportOptions()
        ).run()
        table = catalog.table("t")
        require_exact(table)
        for entry in table.history():
            seconds = own_times[entry.version]
            if seconds is not None:
                assert entry.committed_at == START + 1000 * seconds


@pytest.mark.parametrize("back", [0, 1, 1000])
def test_an_adopted_commit_keeps_its_own_time(catalog_uri, tmp_path, back):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        newest = table.history(1)[0].committed_at
        own = newest - back
        put_foreign(table, 2, a_foreign_file(table, 100), in_commit_timestamp=own)
        assert [one.done for one in catalog.mirror.repair("orders", adopt=True)] == [True]
        assert table.history(1)[0].committed_at == own
        table.append(rows(2))
        assert table.history(1)[0].committed_at > newest
        require_exact(table)


# The last millisecond that Delta can count in microseconds; those that commits may begin behind.
LAST_MOMENT = 2**63 // 1000
LAST_OF_9999 = 253_402_300_799_999
FIRST_MOMENT = -62_135_596_800_000


@pytest.mark.req("R9")
@pytest.mark.parametrize("own", [LAST_OF_9999 - 1, LAST_OF_9999])
def test_commits_follow_an_adopted_commit_of_the_far_future(catalog_uri, tmp_path, own):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        put_foreign(table, 2, a_foreign_file(table, 100), in_commit_timestamp=own)
        assert [one.done for one in catalog.mirror.repair("orders", adopt=True)] == [True]
        table.append(rows(2))
        assert [one.committed_at for one in table.history(2)] == [own + 1, own]
        assert table.snapshot(timestamp=own).version == 2
        assert catalog.mirror.verify("orders") == []


@pytest.mark.req("R9")
def test_commits_follow_an_adopted_commit_of_the_far_past(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        put_foreign(table, 2, a_foreign_file(table, 100), in_commit_timestamp=FIRST_MOMENT)
        assert [one.done for one in catalog.mirror.repair("orders", adopt=True)] == [True]
        table.append(rows(2))
        assert table.history(2)[1].committed_at == FIRST_MOMENT
        require_exact(table)


@pytest.mark.req("R9")
@pytest.mark.parametrize(
    "own", [FIRST_MOMENT - 1, LAST_OF_9999 + 1, LAST_MOMENT, LAST_MOMENT + 1, 2**62]
)
def test_a_commit_whose_time_no_reader_can_hold_is_refused(catalog_uri, tmp_path, own):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        put_foreign(table, 2, a_foreign_file(table, 100), in_commit_timestamp=own)
        with pytest.raises(MalformedActionError, match=r"(?i)version 2.*in-?commit-? ?timestamp"):
            catalog.mirror.repair("orders", adopt=True)
        assert table.refresh().current_version == 1


@pytest.mark.req("R9")
@pytest.mark.parametrize("own", [FIRST_MOMENT - 1, LAST_OF_9999 + 1, LAST_MOMENT + 1])
def test_a_log_whose_time_no_reader_can_hold_is_not_imported(catalog_uri, tmp_path, own):
    write_log(tmp_path / "t", [None] * (VERSIONS - 1) + [(own - START) / 1000])
    with deltasql.connect(catalog_uri) as catalog:
        catalog.create_if_missing()
        with pytest.raises(MalformedActionError, match=f"(?i)version {VERSIONS - 1}"):
            catalog.import_table(str(tmp_path / "t"), "t")


def test_versions_above_the_known_one_do_not_count(catalog_uri, tmp_path):
    """A reader that has read the table's row does not see what is committed afterwards."""
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        known = table.refresh()
        table.append(rows(2))
        later = table.history(1)[0].committed_at
        with inspect(catalog).database.read() as tx:
            assert version_at(tx, known, later) == 1


def test_a_time_is_looked_up_by_an_index(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        database = inspect(catalog).database
        values = {"table_id": table.table_id, "first": 0, "last": 9, "timestamp": START}
        plan = plan_of(database, "version_at", values)
    assert "dl_table_versions_time" in plan
    assert "dl_table_versions_backdated" in plan
    for whole in ("Seq Scan on dl_table_versions", "SCAN dl_table_versions", "pkey", "autoindex"):
        assert whole not in plan


def plan_of(database, name, values) -> str:
    text = database.queries.get(name).text
    if database.dialect.name == "sqlite":
        with closing(sqlite3.connect(database.path)) as connection:
            found = connection.execute(f"explain query plan {text}", [json.dumps(values)])
            return "\n".join(row[3] for row in found)
    with database.read() as tx:
        tx.connection.execute("set local enable_seqscan to off")  # the table is small
        return "\n".join(row[0] for row in tx.connection.execute(f"explain {text}", values))
