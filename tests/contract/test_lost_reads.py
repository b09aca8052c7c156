"""A read whose connection is lost is no commit of unknown outcome."""

import psycopg
import pytest

import deltasql
from builders import a_table, rows
from deltasql.errors import CatalogUnavailableError, CommitUnknownError


@pytest.mark.req("R44")
def test_a_read_that_loses_its_connection_at_the_end(postgres_server, tmp_path):
    name = postgres_server.create_database_name()
    with deltasql.connect(postgres_server.uri(name)) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        database = table.snapshot().database
        with pytest.raises(CatalogUnavailableError) as caught, database.read() as tx:
            tx.fetch_all("all_tables")
            with psycopg.connect(postgres_server.dsn(), autocommit=True) as admin:
                admin.execute(
                    "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
                    "where datname = %s",
                    [name],
                )
        assert not isinstance(caught.value, CommitUnknownError)
        assert table.version == 1
