"""Random logs: an import from any version on is a plain replay of the log from that version on."""

import random

import pytest

import deltasql
from cut_histories import do_import
from deltasql.imports.read import tasks
from deltasql.protocol.actions import path_key
from deltasql.testing import inspect
from histories import History
from legacy import checkpoint_at


def files_at(catalog, row, version):
    columns = ("path", "dv_id", "size", "modification_time")
    found = (
        inspect(catalog).metastore.snapshot(row.table_id, version=version).files(columns=columns)
    )
    return {(path_key(path), dv): rest for path, dv, *rest in map(dict.values, found.to_pylist())}


def replayed(state):
    return {
        (path_key(add.path), add.dv_id): [add.size, add.modification_time]
        for add in state.files.values()
    }


@pytest.mark.req("R80")
@pytest.mark.parametrize("seed", range(12))
def test_an_import_from_a_version_is_a_replay_from_there(tmp_path, monkeypatch, seed):
    chance = random.Random(seed)
    versions = chance.randint(2, 30)
    with_vectors = chance.random() < 0.5
    history = History(seed, versions=versions, vectors=with_vectors)
    root = history.write(tmp_path / "t")
    oldest = chance.randrange(versions)
    if not with_vectors and chance.random() < 0.7:
        checkpoint_at(root, chance.randrange(versions))
    monkeypatch.setattr(tasks, "TASK_VERSIONS", chance.randint(1, 8))
    if chance.random() < 0.5:
        monkeypatch.setattr(tasks, "SEGMENT_BYTES", 1)
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/metadata.db") as catalog:
        done = do_import(catalog, root, from_version=oldest)
        row, states = done.row, history.states()
        assert list(done.validation.lines()) == []
        assert row.oldest_version == oldest
        for version in range(oldest, versions):
            snapshot = inspect(catalog).metastore.snapshot(row.table_id, version=version)
            state = states[version]
            assert files_at(catalog, row, version) == replayed(state), (seed, version)
            assert (snapshot.metadata, snapshot.protocol) == (state.metadata, state.protocol)
            assert {one.app_id: one.version for one in snapshot.txns()} == {
                app: txn.version for app, txn in state.txns.items()
            }
            assert {one.domain: one.configuration for one in snapshot.domains()} == {
                name: domain.configuration for name, domain in state.domains.items()
            }
