"""A connection cut during COMMIT, by a real TCP proxy: exactly one version either way."""

from contextlib import ExitStack

import pytest

import deltasql
import toxics
from builders import NO_MIRROR, a_table, an_add
from deltasql.errors import CatalogUnavailableError
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants


@pytest.fixture
def proxied(postgres_server, toxiproxy):
    """A PostgreSQL catalog behind a proxy, and a way to break the proxy at a crash point."""
    name = postgres_server.create_database_name()
    with toxics.proxied(toxiproxy.port, postgres_server.port) as proxy:
        direct = postgres_server.uri(name)
        through = direct.replace(f"port={postgres_server.port}", f"port={proxy.port}")
        assert through != direct
        yield proxy, direct, through


@pytest.mark.parametrize("direction", ["downstream", "upstream"])
@pytest.mark.parametrize("tables", [1, 2])
def test_a_connection_cut_during_commit_leaves_exactly_one_version(
    proxied, tmp_path, direction, tables
):
    """downstream: the server commits and its reply is lost; upstream: COMMIT never arrives."""
    proxy, direct, through = proxied
    with deltasql.connect(direct, settings=NO_MIRROR) as plain:
        names = [f"t{number}" for number in range(tables)]
        for name in names:
            a_table(plain, tmp_path, name)
        with deltasql.connect(through, settings=NO_MIRROR) as catalog:
            passed: list[str] = []
            with ExitStack() as damage:

                def cut(point: str) -> None:
                    if point == "before-commit" and "before-resolve" not in passed:
                        damage.enter_context(proxy.toxic("limit_data", direction, bytes=0))
                    elif point == "before-resolve":
                        damage.close()
                    passed.append(point)

                with hooked(cut), catalog.transaction(commit_id="token") as tx:
                    for name in names:
                        tx.table(name).commit([an_add("f")])
            sent = passed.count("before-commit")
            assert passed.count("before-resolve") == 1
            assert sent == (1 if direction == "downstream" else 2)
            assert dict(tx.versions) == dict.fromkeys(names, 1)
        for name in names:
            table = plain.table(name)
            assert [entry.commit_id for entry in table.history()][:1] == ["token"]
            assert table.version == 1
            check_invariants(plain, name, acknowledged={"token": 1})


def test_a_database_that_stays_away_is_told_as_such(proxied, tmp_path):
    proxy, direct, through = proxied
    with deltasql.connect(direct, settings=NO_MIRROR) as plain:
        a_table(plain, tmp_path)
        with deltasql.connect(through, settings=NO_MIRROR) as catalog:
            table = catalog.table("orders")
            with proxy.down(), pytest.raises(CatalogUnavailableError):
                table.commit([an_add("f")])
            assert table.commit([an_add("f")]) == 1
        check_invariants(plain, "orders")


def test_a_restarted_server_costs_nobody_an_error(other_postgres_server, tmp_path):
    """Idle connections died with the old server: they are found out before they are used."""
    uri = other_postgres_server.uri(other_postgres_server.create_database_name())
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        for number in range(3):
            table.commit([an_add(f"f{number}")])
        assert table.snapshot().files().num_rows == 3
        other_postgres_server.restart()
        assert table.commit([an_add("after")]) == 4
        other_postgres_server.restart()
        assert table.snapshot().files().num_rows == 4
        table.wait_mirrored()
        catalog.mirror.checkpoint("orders", 3)
        other_postgres_server.restart()
        catalog.mirror.checkpoint("orders", 4)
        check_invariants(catalog, "orders")
