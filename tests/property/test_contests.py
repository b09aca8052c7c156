"""Contests after random commits: settled whole or not at all, and every number stays."""

import random

import pytest

import deltasql
from builders import NO_MIRROR, a_remove, a_table, an_add
from commits import vector
from contests import saved, state_of
from deltasql.errors import RecommitError
from deltasql.protocol.actions import DomainMetadata
from deltasql.protocol.schema.types import Primitive, StructField
from deltasql.testing import inspect
from deltasql.testing.invariants import check_invariants
from foreign import a_foreign_file, put_foreign

SETTINGS = ("deltasql.mirror.checkpoint_interval", "k", "deltasql.statsIndexColumns")
FEATURE = {"delta.enableChangeDataFeed": "true"}


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


@pytest.mark.parametrize("seed", range(8))
def test_whatever_was_committed_a_contest_is_settled_and_no_number_changes(
    catalog_uri, tmp_path, seed
):
    """Random commits on our side, one to three on theirs: recommitted whole, or not at all."""
    chance = random.Random(seed)
    with deltasql.connect(catalog_uri) as catalog:
        catalog.create_if_missing()
        opened = inspect(catalog)
        mirrored = opened.connection.settings
        table = a_table(catalog, tmp_path, properties={"delta.enableDeletionVectors": "true"})
        player = Player(table, seed)
        for _ in range(4):
            player.act()
        first = table.version + 1
        opened.connection.settings = NO_MIRROR
        for number in range(chance.choice([1, 3])):
            if chance.random() < 0.8:
                table.commit([an_add(f"own-{number}")], commit_id=f"own-{number}")
            else:
                player.act()
        theirs = [100 + seed + 100 * number for number in range(chance.choice([1, 2, 3]))]
        for version, number in enumerate(theirs, start=first):
            blind = chance.random() < 0.9
            put_foreign(table, version, a_foreign_file(table, number), is_blind_append=blind)
        opened.connection.settings = mirrored
        opened.engine.catch_up(table.table_id, seconds=60)
        tokens = {entry.commit_id: entry.version for entry in table.history()}
        before, newest = state_of(table), table.version
        try:
            catalog.mirror.repair("orders", recommit=True)
        except RecommitError:
            assert state_of(table) == before
            catalog.mirror.repair("orders", replace=True)
            assert table.version == newest
        else:
            assert table.version == newest + len(theirs)
            paths = table.snapshot().files(["path"]).column("path").to_pylist()
            foreign = {f"day=a/foreign-{number}.parquet" for number in theirs}
            assert foreign <= set(paths)
        assert len(saved(table)) == len(theirs)
        assert catalog.mirror.verify("orders") == []
        check_invariants(catalog, "orders", acknowledged=tokens)
