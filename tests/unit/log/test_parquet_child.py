"""Foreign Parquet files are read in a child process; its end is a verdict on the file."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time

import pyarrow as pa
import pytest

from deltasql.errors import CheckpointError, MalformedActionError, TableImportError
from deltasql.log import parquet_input
from deltasql.log.checkpoint_reader import told_as_damage
from deltasql.log.checkpoint_writer import CheckpointWriter
from deltasql.log.parquet_input import open_parquet
from deltasql.protocol.codec import digest
from foreign_checkpoints import whole_table
from naive_checkpoints import KEY, VERSION, fast_rows, parquet, stored


@pytest.fixture
def store():
    return stored(parquet(whole_table()))


def child_of(opened) -> int:
    return opened._child._process.pid


def read_after(number: signal.Signals, store) -> None:
    """Send a signal to the child between two questions."""
    with told_as_damage(store, KEY, VERSION), open_parquet(store, KEY) as opened:
        os.kill(child_of(opened), number)
        list(opened.batches(0, ["add.path"]))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.req("R76")
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS])
def test_a_file_that_ends_its_reader_is_refused(store, number):
    with pytest.raises(MalformedActionError, match=f"ended the process.*{number.name}") as caught:
        read_after(number, store)
    assert caught.value.context == {"version": VERSION, "key": KEY}
    assert len(fast_rows(store)[0]) == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_reader_that_somebody_ends_is_no_verdict_on_the_file(store, number):
    with pytest.raises(TableImportError, match="ended from outside"):
        read_after(number, store)
    assert len(fast_rows(store)[0]) == 1


def test_one_process_reads_many_files(store):
    pids = set()
    for _ in range(3):
        with open_parquet(store, KEY) as opened:
            pids.add(child_of(opened))
            assert sum(batch.num_rows for batch in opened.batches(0, ["add.path"])) == 4
    assert len(pids) == 1


def test_files_open_at_the_same_time_have_a_process_each(store):
    with open_parquet(store, KEY) as one, open_parquet(store, KEY) as other:
        assert child_of(one) != child_of(other)
        assert one.groups == other.groups == (4,)


def test_threads_read_side_by_side(store):
    found = []
    threads = [threading.Thread(target=lambda: found.append(fast_rows(store))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [fast_rows(store)] * 6
    assert len(parquet_input._CHILDREN._idle) <= 4


def test_batches_may_be_left_before_their_end():
    store = stored(parquet(pa.table({"add": pa.array([{"path": str(n)} for n in range(50_000)])})))
    with open_parquet(store, KEY) as opened:
        first = next(opened.batches(0, ["add.path"]))
        assert sum(batch.num_rows for batch in opened.batches(0, ["add.path"])) == 50_000
        assert first.num_rows < 50_000
    assert len(fast_rows(stored(parquet(whole_table())))[0]) == 1


def test_a_process_that_ended_while_it_was_idle_is_replaced(store):
    with open_parquet(store, KEY) as opened:
        idle = child_of(opened)
    os.kill(idle, signal.SIGKILL)
    assert len(fast_rows(store)[0]) == 1
    with open_parquet(store, KEY) as opened:
        assert child_of(opened) != idle


def test_a_process_that_cannot_be_started_is_told_as_such(store, monkeypatch):
    parquet_input._CHILDREN.close()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(TableImportError, match="does not start"):
        fast_rows(store)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(TableImportError, match="does not start: it ended with exit code 1"):
        fast_rows(store)


def test_a_checkpoint_in_a_log_is_read_by_the_child_first(store, monkeypatch):
    writer = CheckpointWriter(store)
    with writer.fetch(VERSION) as (found, _):
        assert found.rows == 4
    damaged = bytearray(store.get(KEY))
    damaged[4:40] = bytes(36)
    store.put(KEY, bytes(damaged))
    with pytest.raises(CheckpointError, match=KEY), writer.fetch(VERSION):
        pass
    parquet_input._CHILDREN.close()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(TableImportError, match="does not start"), writer.fetch(VERSION):
        pass


def test_a_checkpoint_of_ours_needs_no_child(store, monkeypatch):
    parquet_input._CHILDREN.close()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with CheckpointWriter(store).fetch(VERSION, digest(store.get(KEY))) as (found, _):
        assert found.rows == 4


def test_it_ends_with_the_process_that_started_it(tmp_path):
    path = tmp_path / KEY
    path.parent.mkdir()
    path.write_bytes(parquet(whole_table()))
    script = (
        "import os, signal, sys\n"
        "from deltasql.log.parquet_input import open_parquet\n"
        "from deltasql.storage.resolve import open_store\n"
        "with open_parquet(open_store(sys.argv[1]), sys.argv[2]) as opened:\n"
        "    print(opened._child._process.pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path), KEY]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    pid = int(found.stdout)
    deadline = time.monotonic() + 20
    while is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_forked_process_starts_its_own():
    script = (
        "import os, sys\n"
        "sys.path.insert(0, 'tests/support')\n"
        "from naive_checkpoints import fast_rows, parquet, stored\n"
        "from foreign_checkpoints import whole_table\n"
        "from deltasql.log import parquet_input\n"
        "store = stored(parquet(whole_table()))\n"
        "fast_rows(store)\n"
        "ours = parquet_input._CHILDREN._idle[0]._process.pid\n"
        "if os.fork() == 0:\n"
        "    rows = fast_rows(store)[0]\n"
        "    theirs = parquet_input._CHILDREN._idle[0]._process.pid\n"
        "    print('forked', len(rows), theirs != ours, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print('parent', len(fast_rows(store)[0]),\n"
        "      parquet_input._CHILDREN._idle[0]._process.pid == ours)\n"
    )
    command = [sys.executable, "-c", script]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["forked", "1", "True", "parent", "1", "True"]


def test_a_copy_that_finds_no_room_is_no_verdict_on_the_file(store, monkeypatch):
    real, room = os.pwrite, [100]

    def pwrite(descriptor, data, place):
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = min(room[0], len(data))
        room[0] -= count
        return real(descriptor, data[:count], place)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(TableImportError, match="No space left"):
        fast_rows(store)
    monkeypatch.undo()
    assert len(fast_rows(store)[0]) == 1


def test_a_short_write_is_finished(store, monkeypatch):
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, place: real(file, data[:7], place))
    assert len(fast_rows(store)[0]) == 1


def test_modules_of_the_working_directory_are_not_imported(store, tmp_path, monkeypatch):
    (tmp_path / "queue.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    parquet_input._CHILDREN.close()
    assert len(fast_rows(store)[0]) == 1


def test_a_fork_inside_of_the_block_leaves_the_process_to_the_parent():
    script = (
        "import os, sys\n"
        "sys.path.insert(0, 'tests/support')\n"
        "from naive_checkpoints import KEY, parquet, stored\n"
        "from foreign_checkpoints import whole_table\n"
        "from deltasql.log.parquet_input import open_parquet\n"
        "with open_parquet(stored(parquet(whole_table())), KEY) as opened:\n"
        "    pid = os.fork()\n"
        "    if pid:\n"
        "        os.waitpid(pid, 0)\n"
        "        print(sum(batch.num_rows for batch in opened.batches(0, ['add.path'])))\n"
        "if not pid:\n"
        "    os._exit(0)\n"
    )
    command = [sys.executable, "-c", script]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["4"]
