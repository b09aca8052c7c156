"""Files: durable, whole, and never outside the root."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from deltasql.errors import (
    AccessDeniedError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
    UnsafePathError,
)
from deltasql.storage.local import LocalStore
from deltasql.storage.port import Created, create_once

KEY = "_delta_log/00000000000000000000.json"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "lake" / "orders"


@pytest.fixture
def store(root: Path) -> LocalStore:
    return LocalStore(str(root))


def files_below(root: Path) -> list[str]:
    return sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if not p.is_dir())


def test_a_root_that_is_not_there_is_empty_and_comes_with_the_first_object(
    store: LocalStore, root: Path
) -> None:
    assert list(store.list_from("")) == []
    with pytest.raises(ObjectNotFoundError):
        store.get("x")
    assert not root.exists()
    store.put_if_absent("a/b/c", b"1")
    assert (root / "a/b/c").read_bytes() == b"1"


def test_the_uri_spells_the_root_as_a_file_uri(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "a b%é=1"))
    assert store.uri == f"file://{tmp_path}/a%20b%25%C3%A9=1"


def test_file_and_directories_are_synced_before_a_put_returns(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    fsync = os.fsync

    def spy(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    store.put_if_absent(KEY, b"x")
    new_directories, (content, last) = synced[:-2], synced[-2:]
    assert new_directories == [str(root.parents[1]), str(root.parent), str(root)]
    assert Path(content).name.startswith(".00000000000000000000.json.")
    assert last == str(root / "_delta_log")
    synced.clear()
    store.put(KEY, b"y")
    assert [Path(path).suffix for path in synced] == [".tmp", ""]
    synced.clear()
    with store.open_output("part.parquet") as file:
        file.write(b"z")
    assert [Path(path).suffix for path in synced] == [".tmp", ""]


@pytest.mark.parametrize("operation", ["put_if_absent", "put"])
def test_no_unfinished_file_stays_after_a_put(
    store: LocalStore, root: Path, operation: str
) -> None:
    getattr(store, operation)(KEY, b"x")
    if operation == "put_if_absent":
        with pytest.raises(StorageError):
            store.put_if_absent(KEY, b"y")
    assert files_below(root) == [KEY]


def test_links_that_lead_outside_are_not_followed(
    store: LocalStore, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "secret").write_bytes(b"secret")
    root.mkdir(parents=True)
    (root / "file").symlink_to(outside / "secret")
    (root / "dir").symlink_to(outside)
    (root / "up").symlink_to("..")
    for key in ["file", "dir/secret", "up/orders2/x"]:
        for attempt in (store.get, store.head, store.open_input, store.local_path):
            with pytest.raises(UnsafePathError, match="symbolic link"):
                attempt(key)
    for key in ["dir/new", "dir/deep/new", "up/new"]:
        with pytest.raises(UnsafePathError):
            store.put(key, b"")
        with pytest.raises(UnsafePathError):
            store.put_if_absent(key, b"")
        with pytest.raises(UnsafePathError), store.open_output(key):
            pass
        with pytest.raises(UnsafePathError):
            store.delete(key)
    assert list(store.list_from("")) == []
    assert list(store.list_from("dir/")) == []
    assert files_below(outside) == ["secret"]


def test_a_link_is_replaced_and_never_written_through(
    store: LocalStore, root: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"untouched")
    root.mkdir(parents=True)
    (root / "k").symlink_to(victim)
    store.put("k", b"ours")
    assert (store.get("k"), victim.read_bytes()) == (b"ours", b"untouched")
    (root / "gone").symlink_to(victim)
    store.delete("gone")
    assert victim.exists()
    assert not (root / "gone").is_symlink()


def test_links_inside_the_root_are_followed(store: LocalStore, root: Path) -> None:
    store.put("real/x", b"1")
    (root / "alias").symlink_to(root / "real")
    (root / "y").symlink_to("real/x")
    assert store.get("alias/x") == b"1"
    assert [info.key for info in store.list_from("")] == ["real/x", "y"]
    assert store.head("y").size == 1


def test_a_root_reached_by_a_link_works(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    LocalStore(str(tmp_path / "link")).put("a/b", b"1")
    assert (tmp_path / "real/a/b").read_bytes() == b"1"


def test_unfinished_files_are_never_listed_nor_keys(store: LocalStore, root: Path) -> None:
    store.put("a/x", b"")
    (root / "a/.x.0123456789abcdef.tmp").write_bytes(b"half")
    assert [info.key for info in store.list_from("")] == ["a/x"]
    with pytest.raises(UnsafePathError, match="reserved"):
        store.get("a/.x.0123456789abcdef.tmp")


def test_a_sweep_takes_old_leftovers_and_nothing_else(store: LocalStore, root: Path) -> None:
    keep = ["_delta_log/0.json", "_delta_log/x.tmp", "_delta_log/p=a#1/y", "data#1", "_delta_log#1"]
    for key in keep:
        store.put(key, b"")
    old = ["_delta_log/.0.json.0123456789abcdef.tmp", "_delta_log/1.json#1", "_delta_log/s/2#12"]
    new = "_delta_log/.9.json.0123456789abcdef.tmp"
    for key in [*old, new]:
        (root / key).parent.mkdir(exist_ok=True)
        (root / key).write_bytes(b"half")
    for key in [*keep, *old]:
        os.utime(root / key, (1_000, 1_000))
    os.utime(root / new, (4_900, 4_900))
    assert store.sweep_leftovers("_delta_log/", older_than_s=3_600, now=5_000) == tuple(sorted(old))
    assert files_below(root) == sorted([*keep, new])
    assert store.sweep_leftovers("", older_than_s=0, now=9_999) == (new,)
    assert files_below(root) == sorted(keep)


def test_names_as_long_as_the_system_allows(store: LocalStore) -> None:
    for name in ["n" * 255, "é" * 127]:
        store.put_if_absent(f"d/{name}", b"1")
        store.put(f"d/{name}", b"2")
        assert store.get(f"d/{name}") == b"2"
    with pytest.raises(StorageError, match="File name too long"):
        store.put("n" * 256, b"")


def test_a_file_where_a_directory_must_be_is_told(store: LocalStore) -> None:
    store.put("a", b"")
    for write in (store.put, store.put_if_absent):
        with pytest.raises(StorageError, match="Not a directory") as failure:
            write("a/b", b"")
        assert not failure.value.retryable
        assert type(failure.value) is StorageError


def test_a_directory_is_no_object(store: LocalStore) -> None:
    store.put("d/x", b"")
    with pytest.raises(StorageError, match="directory"):
        store.put_if_absent("d", b"")
    with pytest.raises(StorageError):
        store.put("d", b"")
    store.delete("d")
    assert store.get("d/x") == b""


def test_pipes_and_names_that_are_no_text_are_passed_over(store: LocalStore, root: Path) -> None:
    store.put("k", b"")
    os.mkfifo(root / "pipe")
    (Path(os.fsdecode(os.fsencode(root) + b"/\xff\xfe"))).write_bytes(b"")
    assert [info.key for info in store.list_from("")] == ["k"]
    with pytest.raises(ObjectNotFoundError):
        store.get("pipe")


_CRASH = """
import sys
from deltasql.storage.local import LocalStore
LocalStore(sys.argv[1]).put_if_absent(sys.argv[2], b"whole")
"""


@pytest.mark.req("R20")
@pytest.mark.parametrize(
    ("point", "outcome"),
    [
        ("storage.local.before_link", Created.CREATED),
        ("storage.local.after_link", Created.SAME),
    ],
)
def test_a_killed_put_leaves_all_or_nothing_and_a_leftover_to_sweep(
    store: LocalStore, root: Path, point: str, outcome: Created
) -> None:
    env = {**os.environ, "DELTASQL_TESTING": "1", "DELTASQL_CRASH_AT": point}
    command = [sys.executable, "-c", _CRASH, str(root), KEY]
    assert subprocess.run(command, env=env, check=False, timeout=60).returncode == -9
    expected = [KEY] if outcome is Created.SAME else []
    assert [info.key for info in store.list_from("")] == expected
    assert create_once(store, KEY, b"whole") is outcome
    (leftover,) = store.sweep_leftovers("_delta_log/", older_than_s=0, now=2**33)
    assert leftover.endswith(".tmp")
    assert files_below(root) == [KEY]
    assert store.get(KEY) == b"whole"


_FULL = """
import resource, signal, sys
from deltasql.errors import StorageUnavailableError
from deltasql.storage.local import LocalStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))
store = LocalStore(sys.argv[1])
def stream():
    with store.open_output("k") as file:
        file.write(b"x" * 5_000)
def put():
    store.put("k", b"x" * 5_000)
def create():
    store.put_if_absent("k", b"x" * 5_000)
for write in (put, create, stream):
    try:
        write()
    except StorageUnavailableError as error:
        print(error)
"""


def test_a_full_disk_is_unavailable_and_leaves_nothing(root: Path) -> None:
    command = [sys.executable, "-c", _FULL, str(root)]
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["Could not write 'k': File too large."] * 3
    assert files_below(root) == []


_UNPRIVILEGED = """
import os, sys
from deltasql.errors import AccessDeniedError
from deltasql.storage.local import LocalStore
os.geteuid() or os.setuid(65534)
store = LocalStore(sys.argv[1])
for call, *arguments in ((store.put, "new", b""), (store.get, "closed"), (store.delete, "closed")):
    try:
        call(*arguments)
    except AccessDeniedError as error:
        print(error)
"""


def test_missing_permissions_are_denied() -> None:
    # a directory that every user may enter, unlike pytest's own
    with tempfile.TemporaryDirectory() as directory:
        closed = Path(directory, "closed")
        closed.touch(0)
        Path(directory).chmod(0o555)
        command = [sys.executable, "-c", _UNPRIVILEGED, directory]
        done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60)
        Path(directory).chmod(0o755)
    assert done.stdout.splitlines() == [
        "Could not write 'new': Permission denied.",
        "Could not read 'closed': Permission denied.",
        "Could not delete 'closed': Permission denied.",
    ]


def test_errors_of_the_system_are_of_our_kinds() -> None:
    from deltasql.storage.durable_files import from_os

    assert type(from_os(PermissionError(13, ""), "read", "k")) is AccessDeniedError
    assert type(from_os(OSError(5, ""), "read", "k")) is StorageUnavailableError
    assert type(from_os(OSError(28, ""), "write", "k")) is StorageUnavailableError
    assert type(from_os(OSError("odd"), "write", "k")) is StorageUnavailableError
