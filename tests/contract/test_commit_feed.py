"""Commits one after the other, as one state of the catalog has them."""

import pytest

import deltasql
from builders import NO_MIRROR, a_table, an_add
from deltasql.errors import TableNotFoundError, VersionNotFoundError
from deltasql.metastore.snapshot.commit_feed import open_feed, read_head
from deltasql.testing import inspect


@pytest.fixture
def catalog(catalog_uri):
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as opened:
        opened.create_if_missing()
        yield opened


@pytest.fixture
def table(catalog, tmp_path):
    made = a_table(catalog, tmp_path)
    for number in range(3):
        made.commit([an_add(f"f{number}.parquet")], commit_id=f"c{number}")
    return made


def test_versions_in_order_with_their_tokens_and_times(catalog, table):
    database = inspect(catalog).database
    with open_feed(database, table.table_id) as feed:
        table.commit([an_add("late.parquet")])
        refs = list(feed.commits(1, feed.row.current_version))
        found = [feed.read(ref) for ref in refs]
        assert (feed.epoch, feed.commit_id(2), feed.commit_id(9)) == (1, "c1", None)
    assert [ref.commit_id for ref in refs] == ["c0", "c1", "c2"]
    told = {entry.version: entry.committed_at for entry in table.history()}
    assert [ref.timestamp for ref in refs] == [told[version] for version in (1, 2, 3)]
    assert [one.path for commit in found for one in commit.files] == [
        "f0.parquet",
        "f1.parquet",
        "f2.parquet",
    ]


def test_a_version_that_is_not_there_is_never_passed_over(catalog, table):
    database = inspect(catalog).database
    with open_feed(database, table.table_id) as feed:
        assert [ref.version for ref in feed.commits(3, 3)] == [3]
        assert list(feed.commits(4, 3)) == []
        with pytest.raises(VersionNotFoundError, match="no version 4"):
            list(feed.commits(2, 4))


def test_the_head_moves_with_every_commit(catalog, table):
    database = inspect(catalog).database
    before = read_head(database, table.table_id)
    assert before == read_head(database, table.table_id)
    table.commit([an_add("late.parquet")])
    after = read_head(database, table.table_id)
    assert after != before
    catalog.new_epoch()
    assert read_head(database, table.table_id) != after


def test_a_table_that_is_not_there(catalog, table):
    database = inspect(catalog).database
    nobody = "00000000-0000-4000-8000-000000000000"
    assert read_head(database, nobody) is None
    with pytest.raises(TableNotFoundError), open_feed(database, nobody):
        pass
