"""Commits written by others: understood, replayed to what is known, given a canonical form."""

import pytest

from builders import some
from corpora import EXPECTED, needs_corpora
from deltasql.errors import MalformedActionError
from deltasql.log.commits import build_segment
from deltasql.protocol.codec import decode_commit, serialize_actions
from deltasql.protocol.log_names import LogFile, LogFileKind
from histories import replay

pytestmark = [pytest.mark.req("R26"), needs_corpora]
# its JSON is spread over many lines
DAMAGED = {"duckdb__null_constraints_lists"}
# history and checkpoint of this one contradict each other; the log alone decides nothing
CONTRADICTING = {"trino__deltalake--clone_merge--clone_merge_cloned"}
KNOWN = sorted(set(EXPECTED) - DAMAGED)
REPLAYED = sorted(
    name
    for name, case in EXPECTED.items()
    if case["verdict"] != "refuse" and name not in DAMAGED | CONTRADICTING
)


def commits(root):
    """(version, bytes) of every commit of a table, in order."""
    log = root / "delta" / "_delta_log"
    parsed = [LogFile.parse(path.name) for path in log.iterdir()] if log.exists() else []
    files = sorted(one for one in parsed if one is not None and one.kind is LogFileKind.COMMIT)
    return [(file.version, (log / file.name).read_bytes()) for file in files]


# Tables without a log, or of which only checkpoints are left.
WITHOUT_COMMITS = {
    "golden__no-delta-log-folder",
    "kernelrs__crc-malformed",
    "trino__statistics--parquet_struct_statistics_nan",
    "trino__statistics--parquet_struct_statistics_null_count",
}


@pytest.mark.parametrize("name", KNOWN)
def test_every_commit_is_understood_and_its_canonical_form_is_a_fixed_point(tables, name):
    found = list(commits(tables / name))
    assert bool(found) == (name not in WITHOUT_COMMITS)
    for version, payload in found:
        actions = decode_commit(payload, version=version, lenient=True)
        canonical = serialize_actions(actions)
        again = decode_commit(canonical, version=version)
        assert serialize_actions(again) == canonical
        assert sorted(serialize_actions([one]) for one in again) == sorted(
            serialize_actions([one]) for one in actions
        )


@pytest.mark.parametrize("name", sorted(DAMAGED & set(EXPECTED)))
def test_a_damaged_commit_is_refused_by_line(tables, name):
    for version, payload in some(commits(tables / name)):
        with pytest.raises(MalformedActionError, match=f"version {version}, line 1"):
            decode_commit(payload, version=version, lenient=True)


@pytest.mark.parametrize("name", REPLAYED)
def test_a_replay_of_the_whole_history_gives_the_known_files(tables, name):
    history = commits(tables / name)
    if not history or [version for version, _ in history] != list(range(len(history))):
        pytest.skip("its history is cut: the state comes from a checkpoint")
    case = EXPECTED[name]
    state = replay((n, decode_commit(raw, version=n, lenient=True)) for n, raw in history)
    known = {(path, vector or "") for path, vector in case["active_keys"]}
    assert {(one.path, one.dv_id) for one in state.files.values()} == known
    assert sum(one.size for one in state.files.values()) == case["active_bytes"]
    assert state.version == case["head_version"]
    assert {app: txn.version for app, txn in state.txns.items()} == case["txns"]
    assert set(state.domains) == set(case["domains"])
    assert state.metadata.id == case["metadata"]["id"]
    assert state.metadata.configuration == case["metadata"]["configuration"]
    assert state.metadata.partition_columns == case["metadata"]["partitionColumns"]
    assert state.protocol.min_reader_version == case["protocol"]["minReaderVersion"]
    assert state.protocol.min_writer_version == case["protocol"]["minWriterVersion"]


@pytest.mark.parametrize("name", REPLAYED)
def test_the_segment_ends_at_the_known_head(tables, name):
    log = tables / name / "delta" / "_delta_log"
    found = [
        parsed
        for path in log.iterdir()
        if (parsed := LogFile.parse(path.name)) is not None and path.stat().st_size
    ]
    assert build_segment(found, name).version == EXPECTED[name]["head_version"]
