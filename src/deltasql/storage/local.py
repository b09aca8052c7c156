"""A directory as a store: durable, atomic, and never outside its root.

Reads follow symbolic links only as long as they stay below the root. Names of unfinished files
(`.name.random.tmp`) are ours: never listed, never a key.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from deltasql.errors import (
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
    UnsafePathError,
)
from deltasql.storage import durable_files
from deltasql.storage.durable_files import from_os, translated
from deltasql.storage.location import Location
from deltasql.storage.paths import bytewise, check_folder, check_key, check_prefix, check_range
from deltasql.storage.port import ObjectInfo

# non-blocking: a pipe that lies below the root must not stop us
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


class LocalStore:
    """Objects as files below one directory; the directory may come into being with the first."""

    def __init__(self, root: str, *, roll: Callable[[int], bytes] = os.urandom) -> None:
        self._root = Path(os.path.realpath(root))
        self._prefix = os.path.join(self._root, "")  # noqa: PTH118 (a string, made once)
        self._roll = roll

    def __repr__(self) -> str:
        return f"LocalStore({str(self._root)!r})"

    @property
    def uri(self) -> str:
        """The root as a file: URI."""
        return Location("file", "", str(self._root)).uri

    def put_if_absent(self, key: str, data: bytes) -> str | None:
        """Create the file only where there is none; it is on the disk when this returns."""
        path = self._target(key)
        try:
            return _info(key, self._write(path, data, durable_files.link_new, key)).e_tag
        except StorageError:
            if path.is_dir():  # a directory is no object: reading it back would never succeed
                raise StorageError(f"{key!r} is a directory in {self.uri}.", key=key) from None
            raise

    def put(self, key: str, data: bytes) -> None:
        """Create or replace the file; it is on the disk when this returns."""
        self._write(self._target(key), data, durable_files.replace, key)

    def get(self, key: str) -> bytes:
        """Return the whole file."""
        descriptor, _ = self._open(key)
        # without context managers: an import gets a million commits
        try:
            return io.FileIO(descriptor, closefd=False).readall()
        except OSError as error:
            raise from_os(error, "read", key) from error
        finally:
            os.close(descriptor)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start`."""
        check_range(key, start, length)
        with self._reading(key) as (descriptor, _), io.FileIO(descriptor, closefd=False) as raw:
            raw.seek(start)
            return io.BufferedReader(raw).read(length)

    def head(self, key: str) -> ObjectInfo:
        """Return size and time of the file."""
        with self._reading(key) as (_, status):
            return _info(key, status)

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the files below the prefix in bytewise order of their keys."""
        after = bytewise(start_after)
        every = sorted((bytewise(key), key, entry) for key, entry in self._walk(prefix))
        for order, key, entry in every:
            if order <= after or durable_files.is_temporary(entry.name):
                continue
            try:
                found = self.head(key) if entry.is_symlink() else _look(key, entry)
            except (ObjectNotFoundError, UnsafePathError):
                continue  # it went between the listing and this look at it, or leads outside
            yield found

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        """Return the directories of one directory; linked ones are not entered."""
        top = check_folder(prefix).rstrip("/")
        if self._escapes(self._root / top):
            return ()
        inside = [e for e in self._entries(top) if e.is_dir(follow_symlinks=False)]
        return tuple(sorted((f"{prefix}{entry.name}/" for entry in inside), key=bytewise))

    def delete(self, key: str) -> None:
        """Remove the file; silent where there is none."""
        path = self._target(key)
        with translated("delete", key):
            try:
                path.unlink()
                durable_files.sync_directory(path.parent)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return

    def open_input(self, key: str) -> BinaryIO:
        """Open the file for reading."""
        descriptor, _ = self._open(key)
        return cast("BinaryIO", io.BufferedReader(io.FileIO(descriptor)))

    @contextmanager
    def open_output(self, key: str) -> Iterator[BinaryIO]:
        """Write a file piece by piece; it gets its name on clean exit."""
        path = self._target(key)
        with _writing(key):
            descriptor, temporary = durable_files.create_temporary(path, self._roll)
        try:
            # whoever writes may close the file: the descriptor stays ours until it is synced
            file = io.BufferedWriter(io.FileIO(descriptor, "wb", closefd=False))
            yield cast("BinaryIO", file)
            with _writing(key):
                if not file.closed:
                    file.close()
                os.fsync(descriptor)
                durable_files.replace(temporary, path)
        finally:
            os.close(descriptor)
            with suppress(FileNotFoundError):
                temporary.unlink()

    def local_path(self, key: str) -> str | None:
        """Return where the file is, or would be."""
        return str(self._source(key))

    def close(self) -> None:
        """Nothing is held open."""

    def sweep_leftovers(self, prefix: str, older_than_s: float, now: float) -> tuple[str, ...]:
        """Remove unfinished files below `prefix` that are older than `older_than_s` at `now`.

        Ours (`.name.random.tmp`), and, below a prefix that is not empty, also `name#1` as other
        object-store clients leave them. Returns the removed keys, sorted.
        """
        removed = []
        for key, entry in self._walk(prefix):
            ours = durable_files.is_temporary(entry.name)
            if not ours and not (prefix and durable_files.is_vendor_leftover(entry.name)):
                continue
            with translated("sweep", key), suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and status.st_mtime < now - older_than_s:
                    Path(entry.path).unlink()
                    removed.append(key)
        return tuple(sorted(removed))

    def _write(
        self, path: Path, data: bytes, publish: Callable[[Path, Path], None], key: str
    ) -> os.stat_result:
        with _writing(key):
            descriptor, temporary = durable_files.create_temporary(path, self._roll)
            try:
                durable_files.write_all(descriptor, data)
                os.fsync(descriptor)
                publish(temporary, path)
                return os.fstat(descriptor)
            finally:
                os.close(descriptor)
                with suppress(FileNotFoundError):
                    temporary.unlink()

    def _walk(self, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Yield every file whose key starts with the prefix; linked directories are not entered."""
        top = check_prefix(prefix).rpartition("/")[0]
        if self._escapes(self._root / top):
            return
        waiting = [top]
        while waiting:
            below = waiting.pop()
            for entry in self._entries(below):
                key = f"{below}/{entry.name}" if below else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if key.startswith(prefix) or prefix.startswith(f"{key}/"):
                        waiting.append(key)
                elif key.startswith(prefix):
                    yield key, entry

    def _entries(self, below: str) -> list[os.DirEntry[str]]:
        with translated("list", below or "/"):
            try:
                with os.scandir(self._root / below) as entries:
                    return [entry for entry in entries if _is_text(entry.name)]
            except (FileNotFoundError, NotADirectoryError):
                return []  # it went away, or never was: it holds nothing

    def _target(self, key: str) -> Path:
        """Return where to write: the directory must lie below the root, links resolved."""
        path = self._path(key)
        if self._escapes(path.parent):
            raise _outside(key)
        return path

    def _source(self, key: str) -> Path:
        """Return where to read: the file itself must lie below the root, links resolved."""
        path = self._path(key)
        if self._escapes(path):
            raise _outside(key)
        return path

    def _path(self, key: str) -> Path:
        path = self._root / check_key(key)
        if durable_files.is_temporary(path.name):
            raise _reserved(key)
        return path

    def _escapes(self, path: Path) -> bool:
        return not Path(os.path.realpath(path)).is_relative_to(self._root)

    def _open(self, key: str) -> tuple[int, os.stat_result]:
        name = check_key(key).rpartition("/")[2]
        if durable_files.is_temporary(name):
            raise _reserved(key)
        try:
            descriptor = os.open(f"{self._prefix}{key}", _READ)
        except NotADirectoryError as error:
            raise _missing(key) from error
        except OSError as error:
            if self._escapes(self._path(key)):
                raise _outside(key) from error
            raise from_os(error, "read", key) from error
        try:
            return descriptor, self._inside(key, descriptor)
        except BaseException:
            os.close(descriptor)
            raise

    def _inside(self, key: str, descriptor: int) -> os.stat_result:
        """Make sure that what was opened is a file of ours, wherever links have led to."""
        try:
            place = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 (a million times)
        except OSError:  # a system that does not tell
            place = os.path.realpath(f"{self._prefix}{key}")
        if not place.startswith(self._prefix):
            raise _outside(key)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _missing(key)
        return status

    @contextmanager
    def _reading(self, key: str) -> Iterator[tuple[int, os.stat_result]]:
        descriptor, status = self._open(key)
        try:
            with translated("read", key):
                yield descriptor, status
        finally:
            os.close(descriptor)


@contextmanager
def _writing(key: str) -> Iterator[None]:
    try:
        with translated("write", key):
            yield
    except ObjectNotFoundError as error:
        # the directory or the unfinished file was removed under us: nothing was stored
        raise StorageUnavailableError(f"Could not write {key!r}: try again.", key=key) from error


def _is_text(name: str) -> bool:
    """Tell whether a key can spell the file name; bytes that are no UTF-8 cannot be asked for."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def _look(key: str, entry: os.DirEntry[str]) -> ObjectInfo:
    try:
        status = entry.stat()
    except OSError as error:
        raise from_os(error, "list", key) from error
    if not stat.S_ISREG(status.st_mode):
        raise _missing(key)
    return _info(key, status)


def _info(key: str, status: os.stat_result) -> ObjectInfo:
    e_tag = f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"
    return ObjectInfo(key, status.st_size, status.st_mtime_ns // 1_000_000, e_tag)


def _outside(key: str) -> UnsafePathError:
    return UnsafePathError(f"The key {key!r} leads outside the table by a symbolic link.", key=key)


def _reserved(key: str) -> UnsafePathError:
    return UnsafePathError(f"The key {key!r} is reserved for unfinished files.", key=key)


def _missing(key: str) -> ObjectNotFoundError:
    return ObjectNotFoundError(f"There is no object {key!r}.", key=key)
