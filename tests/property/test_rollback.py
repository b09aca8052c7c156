"""Rolling the book back: row for row the book as it was, whatever was committed since."""

import random

import pytest

import deltasql
from builders import NO_MIRROR, a_remove, a_table, an_add, rows
from commits import vector
from deltasql.catalog import payloads
from deltasql.catalog.rebased import renumberings
from deltasql.catalog.rollback import roll_back
from deltasql.errors import RebaseError
from deltasql.protocol.actions import DomainMetadata
from deltasql.protocol.schema import Primitive, StructField
from deltasql.testing.invariants import check_invariants
from foreign import a_foreign_file, put_foreign

# Tables of the book, without those that only grow: counters, combinations of partition values.
BY_TABLE = (
    "dl_table_versions",
    "dl_payload_chunks",
    "dl_files",
    "dl_removed_files",
    "dl_stats_columns",
    "dl_metadata_updates",
    "dl_protocol_updates",
    "dl_domain_metadata",
    "dl_txn_actions",
    "dl_txns",
    "dl_mirror_status",
    "dl_log_files",
)
INDEX = ("dl_stats_num", "dl_stats_text")
SETTINGS = ("deltasql.mirror.checkpoint_interval", "k", "deltasql.statsIndexColumns")
FEATURE = {"delta.enableChangeDataFeed": "true"}


class UndoError(Exception):
    """Ends a transaction without a trace."""


def fetch(work, text: str) -> list[tuple]:
    connection = work.connection
    if hasattr(connection, "rows"):
        return connection.rows(text)
    return connection.execute(text.encode()).fetchall()


def book(work, table_id: str) -> dict[str, list]:
    """Everything that the book has of a table."""
    where = f"where table_id = '{table_id}'"
    found = {name: fetch(work, f"select * from {name} {where}") for name in BY_TABLE}
    for name in INDEX:
        keys = f"select stats_key from dl_stats_columns {where}"
        found[name] = fetch(work, f"select * from {name} where stats_key in ({keys})")
    found["dl_tables"] = fetch(work, f"select * from dl_tables {where}")
    return {name: sorted(map(repr, values)) for name, values in found.items()}


class Player:
    """Commits something at random; knows what is live."""

    def __init__(self, table, seed: int) -> None:
        self.table, self.chance = table, random.Random(seed)
        self.live, self.ended, self.count, self.apps = {}, [], 0, {}

    def act(self) -> None:
        self.count += 1
        moves = [self._append] * 4 + [self._change] * 3 + [self._rules, self._domain, self._txn]
        self.chance.choice(moves)()

    def _add(self, path=None, **changes):
        path = path or f"f{self.count}-{self.chance.randrange(10**6)}"
        low = self.chance.randrange(100)
        made = an_add(path, day=self.chance.choice("abc"), low=low, high=low + 3, **changes)
        self.live[(made.path, made.dv_id)] = made
        return made

    def _append(self) -> None:
        self.table.commit([self._add() for _ in range(self.chance.choice([0, 1, 3, 60]))] or [])

    def _change(self) -> None:
        """Remove, change vectors, add once more what is live or has ended."""
        if len(self.live) < 3:
            return self._append()
        actions, chosen = [], self.chance.sample(sorted(self.live), 3)
        gone = self.live.pop(chosen[0])
        actions.append(a_remove(gone))
        marked = self.live.pop(chosen[1])
        number = self.chance.randrange(1, 5)
        if marked.deletion_vector is None or marked.deletion_vector.offset != number:
            actions += [a_remove(marked), self._add(marked.path, deletion_vector=vector(number))]
        again = self.live[chosen[2]]
        actions.append(self._add(again.path, deletion_vector=again.deletion_vector))
        if self.ended and (self.ended[-1].path, self.ended[-1].dv_id) not in self.live:
            back = self.ended.pop()
            if back.path not in {action.path for action in actions}:
                actions.append(self._add(back.path, deletion_vector=back.deletion_vector))
        self.ended.append(gone)
        self.table.commit(actions)
        return None

    def _rules(self) -> None:
        if not FEATURE.items() <= self.table.detail()["properties"].items():
            self.table.alter(properties=FEATURE)  # a change of the protocol too
            return
        if self.chance.random() < 0.4:
            self.table.alter(add=[StructField(f"c{self.count}", Primitive("long"))])
            return
        key = self.chance.choice(SETTINGS)
        value = self.chance.choice(["id", "name", "-1"]) if key == SETTINGS[2] else str(self.count)
        if self.table.detail()["properties"].get(key) != value:
            self.table.alter(properties={key: value})

    def _domain(self) -> None:
        domain = DomainMetadata(
            domain=self.chance.choice("de"),
            configuration=str(self.count),
            removed=self.chance.random() < 0.3,
        )
        self.table.commit([domain])

    def _txn(self) -> None:
        app = self.chance.choice("pq")
        self.apps[app] = self.apps.get(app, 0) + self.chance.randrange(1, 3)
        self.table.commit([self._add()], txn=(app, self.apps[app]))


@pytest.mark.parametrize("seed", range(6))
def test_a_book_rolled_back_is_the_book_as_it_was(catalog_uri, tmp_path, seed, monkeypatch):
    monkeypatch.setattr(payloads, "CHUNK_BYTES", 1000)
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path, properties={"delta.enableDeletionVectors": "true"})
        database, player = catalog._session.book.database, Player(table, seed)
        pages = {}
        while len(pages) < 14:
            player.act()
            with database.read() as work:
                pages[table.version] = book(work, table.table_id)
        newest = table.version
        for version, page in pages.items():
            with pytest.raises(UndoError), database.write() as work:
                work.rows("lock_table", table_id=table.table_id)
                row = roll_back(work, table.table_id, version)
                assert row.current_version == version
                found = book(work, table.table_id)
                for name, lines in page.items():
                    assert found[name] == lines, (seed, version, name)
                raise UndoError
        assert table.version == newest
        with database.read() as work:
            assert book(work, table.table_id) == pages[newest]


@pytest.mark.parametrize("seed", range(8))
def test_whatever_was_committed_a_contest_is_settled_whole_or_not_at_all(
    catalog_uri, tmp_path, seed
):
    """Random commits on our side, one or two on theirs: SQL, the log and every number agree."""
    chance = random.Random(seed)
    with deltasql.connect(catalog_uri) as catalog:
        session = catalog._session
        mirrored = session.settings
        table = a_table(catalog, tmp_path, properties={"delta.enableDeletionVectors": "true"})
        player = Player(table, seed)
        for _ in range(4):
            player.act()
        first = table.version + 1
        session.settings = NO_MIRROR
        tokens = {}
        for number in range(chance.choice([1, 3])):
            if chance.random() < 0.8:
                token = f"own-{number}"
                tokens[token] = table.commit([an_add(token)], commit_id=token)
            else:
                player.act()
        put_foreign(table, first, a_foreign_file(table, 100 + seed))
        if chance.random() < 0.5:
            put_foreign(table, first + 1, a_foreign_file(table, 200 + seed))
        session.settings = mirrored
        session.engine.catch_up(table.table_id, seconds=60)
        before = table.refresh()
        with session.book.database.read() as work:
            page = book(work, table.table_id)
        try:
            catalog.mirror.repair("orders", adopt=True)
        except RebaseError:
            with session.book.database.read() as work:
                assert book(work, table.table_id) == page
            catalog.mirror.repair("orders", replace=True)
            tokens_after = tokens
        else:
            shift = table.version - before.current_version
            assert shift in (1, 2)
            tokens_after = {token: version + shift for token, version in tokens.items()}
            assert renumberings(table.refresh().properties) == 1
        for token, version in tokens_after.items():
            assert table.append(rows(1), commit_id=token) == version
        leftovers = {"unknown_commit"}  # a second foreign commit, where SQL won over the first
        assert {str(one.difference) for one in catalog.mirror.verify("orders")} <= leftovers
        if catalog.mirror.verify("orders") == []:
            check_invariants(catalog, "orders", acknowledged=tokens_after)
