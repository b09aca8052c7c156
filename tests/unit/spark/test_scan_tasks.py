"""Files shared out among tasks."""

from deltasql.protocol.changes import ChangedFile, FollowedCommit
from deltasql.spark.source.scan_tasks import changed_files, shared_out

MB = 1024 * 1024


def files(*sizes):
    commit = FollowedCommit(1, 2, "c")
    return changed_files(commit, [ChangedFile(f"f{at}", size, {}) for at, size in enumerate(sizes)])


def shares(*sizes, most=1000):
    return [part["path"].to_pylist() for part in shared_out(files(*sizes), most)]


def test_nothing_is_no_task():
    assert shares() == []


def test_by_size_and_by_number():
    assert shares(100 * MB, 20 * MB, 20 * MB) == [["f0", "f1"], ["f2"]]
    assert shares(500 * MB, 1) == [["f0"], ["f1"]]
    assert shares(1, 1, 1, most=2) == [["f0", "f1"], ["f2"]]
