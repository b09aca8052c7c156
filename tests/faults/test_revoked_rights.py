"""Rights that are taken away in the midst of a commit: its outcome is unknown, not refused."""

import itertools
from contextlib import ExitStack

import pytest

import deltasql
import pg_roles
import toxics
from builders import NO_MIRROR, a_table, an_add
from deltasql.errors import CommitUnknownError
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants

TAKE = {
    "right": (
        'revoke all on dl_tables from "{p}_writer"',
        'grant all on dl_tables to "{p}_writer"',
    ),
    "login": ('alter role "{p}_writer_login" nologin', 'alter role "{p}_writer_login" login'),
}


@pytest.fixture
def lake(postgres_server):
    return pg_roles.make_lake(postgres_server)


@pytest.mark.req("R96")
@pytest.mark.parametrize("what", list(TAKE))
def test_a_commit_whose_reply_is_lost_with_the_rights_is_unknown_and_made_once(
    lake, toxiproxy, tmp_path, what
):
    take, give = (text.format(p=lake.prefix) for text in TAKE[what])
    with lake.connect("operator", settings=NO_MIRROR) as catalog:
        a_table(catalog, tmp_path)
    with toxics.proxied(toxiproxy.port, lake.server.port) as proxy, lake.admin() as admin:
        through = lake.uri("writer").replace(f"port={lake.server.port}", f"port={proxy.port}")
        with deltasql.connect(through, settings=NO_MIRROR) as catalog, ExitStack() as damage:
            catalog.create_if_missing()
            committer = inspect(catalog).metastore.committer
            committer.sleep = lambda _: None
            minutes = itertools.count(step=60)
            committer.monotonic = lambda: float(next(minutes))

            def cut(point: str) -> None:
                if point == "before-commit":
                    damage.enter_context(proxy.toxic("limit_data", "downstream", bytes=0))
                elif point == "before-resolve":
                    damage.close()
                    admin.execute(take)

            def send() -> int:
                with catalog.transaction(commit_id="token") as tx:
                    tx.table("orders").commit([an_add("f")])
                return tx.versions["orders"]

            with hooked(cut), pytest.raises(CommitUnknownError) as error:
                send()
            assert error.value.retryable
            admin.execute(give)
            assert send() == 1
    with lake.connect("operator", settings=NO_MIRROR) as catalog:
        assert catalog.table("orders").version == 1
        check_invariants(catalog, "orders", acknowledged={"token": 1})
