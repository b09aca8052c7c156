"""Who a commit says that it is by: the login that the database has checked, or who is named."""

import getpass
import socket

import pytest

import deltasql
from builders import a_table, rows
from deltasql.settings import CommitSettings, Settings


def test_a_commit_on_postgres_is_by_the_login(postgres_server, tmp_path):
    uri = postgres_server.uri(postgres_server.create_database_name())
    with deltasql.connect(uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        place = f"{getpass.getuser()}@{socket.gethostname()}"
        assert {(one.committer, one.client) for one in table.history()} == {("postgres", place)}


def test_a_commit_on_sqlite_is_by_the_user_of_the_system(tmp_path):
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/c.db") as catalog:
        table = a_table(catalog, tmp_path)
        assert [one.committer for one in table.history()] == [getpass.getuser()]


NAMED = {
    "argument": {"committer": "ada"},
    "setting": {"settings": Settings(commit=CommitSettings(user="ada"))},
    "argument before setting": {
        "committer": "ada",
        "settings": Settings(commit=CommitSettings(user="bob")),
    },
}


@pytest.mark.parametrize("named", list(NAMED))
def test_a_user_who_is_named_counts_and_the_login_stays_known(catalog_uri, tmp_path, named):
    with deltasql.connect(catalog_uri, **NAMED[named]) as catalog:
        (entry,) = a_table(catalog, tmp_path).history()
    assert entry.committer == "ada"
    if "postgres" in catalog_uri:
        assert entry.client.endswith(", login postgres")


def test_a_client_that_is_named_counts(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri, client="nightly/7") as catalog:
        (entry,) = a_table(catalog, tmp_path).history()
    assert entry.client == "nightly/7"
