"""Commits of a staged log as one commit."""

import pytest

from builders import a_remove, an_add
from deltasql.errors import InvalidCommitError
from deltasql.protocol.actions import (
    Add,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    Remove,
    Sidecar,
    Txn,
    file_key,
)
from deltasql.spark.transactions.path_translation import StagedCommit, fold, refuse_lost_changes
from deltasql.spark.transactions.spark_transaction import note_of

A, B, NEW, OTHER = (an_add(f"{name}.parquet") for name in ("a", "b", "new", "other"))


def commits(*each):
    return [StagedCommit(tuple(actions)) for actions in each]


def folded(*each, live=(A, B)):
    actions = fold(commits(*each), frozenset(file_key(add) for add in live))
    assert len(actions) == len({id(action) for action in actions})
    return actions


def with_vector(add, name):
    vector = DeletionVector(
        storage_type="u", path_or_inline_dv=name, offset=1, size_in_bytes=1, cardinality=1
    )
    return an_add(add.path, deletion_vector=vector)


def metadata(**configuration):
    return Metadata(
        format=Format(),
        id="1",
        partition_columns=[],
        schema_string="{}",
        configuration=configuration,
    )


def test_a_file_added_and_removed_again_vanishes():
    assert folded([a_remove(A), NEW], [a_remove(NEW), OTHER]) == [OTHER, a_remove(A)]


def test_vectors_of_one_file_follow_each_other():
    one, two = with_vector(A, "one"), with_vector(A, "two")
    assert folded([a_remove(A), one], [two, a_remove(one)]) == [two, a_remove(A)]
    assert folded([a_remove(A), one], [a_remove(one)]) == [a_remove(A)]


def test_a_live_file_told_again_and_then_removed_is_removed():
    again = an_add(A.path, stats=None, data_change=False)
    assert folded([again], [a_remove(A)]) == [a_remove(A)]
    assert folded([a_remove(A)], [A]) == [A]


def test_compacting_new_rows_is_a_change():
    compacted = an_add("c.parquet", data_change=False)
    moved = [a_remove(NEW, data_change=False), a_remove(A, data_change=False), compacted]
    found = folded([NEW], moved)
    assert [(type(one), one.path, one.data_change) for one in found] == [
        (Add, "c.parquet", True),
        (Remove, "a.parquet", True),
    ]
    again = an_add("d.parquet", data_change=False)
    assert folded([NEW], moved, [a_remove(compacted, data_change=False), again])[0].data_change


def test_compacting_old_rows_beside_new_ones_is_none():
    compacted = an_add("c.parquet", data_change=False)
    found = folded([NEW], [a_remove(A, data_change=False), compacted])
    assert [one.data_change for one in found] == [True, False, False]


def test_the_last_word_counts():
    first, last = metadata(a="1"), metadata(a="2")
    protocol = Protocol(min_reader_version=1, min_writer_version=2)
    one, two = Txn(app_id="a", version=1), Txn(app_id="a", version=2)
    domain = DomainMetadata(domain="d", configuration="{}", removed=False)
    found = folded([CommitInfo(), first, one, domain], [last, protocol, two, CommitInfo()])
    assert found == [last, two, domain, protocol]


def test_an_action_that_nobody_can_fold_is_refused():
    with pytest.raises(InvalidCommitError, match="sidecar"):
        folded([Sidecar(path="x", size_in_bytes=1, modification_time=1)])


def test_a_change_feed_takes_one_write():
    feed = metadata(**{"delta.enableChangeDataFeed": "true"})
    refuse_lost_changes("orders", feed, commits([NEW], [feed]))
    refuse_lost_changes("orders", metadata(), commits([NEW], [OTHER]))
    for first in (feed, metadata()):
        with pytest.raises(InvalidCommitError, match="orders"):
            refuse_lost_changes("orders", first, commits([NEW, feed], [OTHER]))


def test_notes_tell_one_or_each():
    merge = CommitInfo(
        operation="MERGE",
        operation_parameters={"predicate": "p"},
        operation_metrics={"numOutputRows": "3", "executionTimeMs": "9"},
    )
    update = CommitInfo(operation="UPDATE", operation_metrics={"numOutputRows": "4"})
    one = note_of([merge])
    assert (one.operation, one.parameters) == ("MERGE", {"predicate": "p"})
    assert one.metrics == {"numOutputRows": "3", "executionTimeMs": "9"}
    both = note_of([merge, update])
    assert both.operation == "TRANSACTION"
    assert both.metrics == {"numOutputRows": "7"}
    assert both.parameters["operations"].count('"operation"') == 2
