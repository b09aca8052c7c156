"""Every checkpoint of the corpora gives the rows of the slow way, and the state of its version."""

from pathlib import Path

import pytest

from builders import some
from corpora import needs_corpora
from deltasql.errors import MalformedActionError
from deltasql.log.checkpoint_reader import read_head
from deltasql.log.commits import usable_checkpoints
from deltasql.protocol.actions import Add, Remove, Sidecar
from deltasql.protocol.codec import decode_commit
from deltasql.protocol.log_names import LOG_FOLDER, LogFile
from deltasql.storage.local import LocalStore
from naive_checkpoints import actions_of, add_rows, fast_rows, remove_rows

# Delta's own test of a reader's refusal.
HEADLESS = "golden__deltalog-state-reconstruction-from-checkpoint-missing-metadata"


def checkpoints(tables: Path):
    for folder in sorted(tables.iterdir()):
        log = folder / "delta" / LOG_FOLDER
        names = [path.name for path in log.glob("*.checkpoint*") if path.stat().st_size]
        files = [file for file in map(LogFile.parse, names) if file is not None]
        for parts in usable_checkpoints(files):
            yield folder.name, LocalStore(str(folder / "delta")), parts


def slow_actions(store: LocalStore, key: str):
    is_json = key.endswith(".json")
    data = store.get(key)
    found = decode_commit(data, version=None, lenient=True) if is_json else actions_of(data)
    sidecars = [action.path for action in found if isinstance(action, Sidecar)]
    return found + [
        a for name in sidecars for a in actions_of(store.get(f"{LOG_FOLDER}_sidecars/{name}"))
    ]


@needs_corpora
@pytest.mark.req("R60")
def test_every_checkpoint_gives_the_rows_of_the_slow_way(tables):
    count = spelled = 0
    for name, store, parts in checkpoints(tables):
        actions = [action for part in parts for action in slow_actions(store, part.key)]
        adds, removes = fast_rows(store, list(parts))
        expected = add_rows(actions)
        for row, slow in zip(adds, expected, strict=True):
            if slow["stats"] is None and row["stats"] is not None:
                spelled += 1  # from typed columns, which the slow way leaves out
                slow |= {key: row[key] for key in ("stats", "num_records")}
        assert adds == expected, name
        assert removes == remove_rows(actions), name
        count += 1
    assert count > 50
    assert spelled > 10


@needs_corpora
@pytest.mark.req("R60")
def test_every_checkpoint_has_the_head_of_the_slow_way(tables):
    for name, store, parts in some(checkpoints(tables)):
        if name == HEADLESS:
            with pytest.raises(MalformedActionError):
                read_head(store, parts)
            continue
        actions = [action for part in parts for action in slow_actions(store, part.key)]
        files = (Add, Remove, Sidecar)
        slow = [a for a in actions if not isinstance(a, files) and a.kind != "checkpointMetadata"]
        assert sorted(map(repr, read_head(store, parts))) == sorted(map(repr, slow)), name
