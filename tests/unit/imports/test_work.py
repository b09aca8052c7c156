"""What a task on Spark returns: its rows packed, or why there are none."""

import pickle
from dataclasses import dataclass, replace

import pytest

from deltasql.errors import MalformedActionError
from deltasql.imports.engines.child_process import pack, unpack
from deltasql.imports.engines.spark import (
    Failed,
    ImportWork,
    NumberedTask,
    PackedRows,
    ResultTooLarge,
)
from deltasql.imports.plan.import_plan import read_plan
from deltasql.imports.read.tasks import CommitTask, LogReader
from deltasql.protocol.log_names import commit_key
from deltasql.storage.local import LocalStore
from histories import History


@dataclass(frozen=True)
class Opener:
    """Opens a folder, with a password that nobody may see."""

    place: str
    password: str = "hush-hush"

    def __call__(self) -> LocalStore:
        """Open the store."""
        return LocalStore(self.place)


@pytest.fixture
def source(tmp_path):
    return History(11, 4).write(tmp_path / "t")


def numbered(source, max_bytes: int) -> list[NumberedTask]:
    commits = read_plan(LocalStore(str(source))).commits
    return [NumberedTask(n, CommitTask(commits[n : n + 1]), max_bytes) for n in range(len(commits))]


def test_a_task_returns_its_rows(source):
    work = pickle.loads(pickle.dumps(ImportWork.of(LogReader(Opener(str(source))))))
    found = list(work(numbered(source, 1_000_000)))
    assert all(isinstance(each, PackedRows) for each in found)
    assert [unpack(each.packed).first for each in found] == [0, 1, 2, 3]


def test_rows_over_the_limit_do_not_travel(source):
    reader = LogReader(Opener(str(source)))
    first, *_ = numbered(source, 0)
    size = len(pack(reader(first.task)))
    limits = (size - 1, size)
    found = list(ImportWork.of(reader)([replace(first, max_bytes=limit) for limit in limits]))
    assert found[0] == ResultTooLarge(0, size)
    assert isinstance(found[1], PackedRows)


def test_an_error_of_ours_is_returned_and_the_next_task_is_done(source):
    (source / commit_key(1)).write_bytes(b'{"add":{"path":7}}')
    work = ImportWork.of(LogReader(Opener(str(source))))
    found = list(work(numbered(source, 1_000_000)))
    assert isinstance(found[1], Failed)
    travelled = pickle.loads(pickle.dumps(found[1].error))
    assert type(travelled) is MalformedActionError
    assert travelled.advice == found[1].error.advice
    assert [each.number for each in found] == [0, 1, 2, 3]


def test_what_opens_the_store_and_the_rows_are_not_shown(source):
    work = ImportWork.of(LogReader(Opener(str(source))))
    assert "hush" not in repr(work) + str(work)
    assert "packed" not in repr(PackedRows(1, b"secret"))
    assert "secret" not in repr(PackedRows(1, b"secret"))
