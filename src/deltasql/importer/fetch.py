"""Fetch many small objects in order, several at a time where the store is far away."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from deltasql.errors import ObjectNotFoundError, SourceChangedError
from deltasql.importer.commit_files import CommitFile
from deltasql.storage.port import ObjectStore

_THREADS = 32
# What is fetched ahead waits in memory.
_AHEAD_BYTES = 32 * 1024 * 1024


def fetch_in_order(
    store: ObjectStore, files: Sequence[CommitFile]
) -> Iterator[tuple[CommitFile, bytes]]:
    """Yield each commit with its bytes.

    Raises:
        SourceChangedError: one is gone, or has another size than was listed.
    """
    if len(files) == 1 or store.local_path(files[0].key) is not None:
        for file in files:
            yield file, _fetch(store, file)
        return
    with ThreadPoolExecutor(min(_THREADS, len(files))) as pool:
        waiting: deque[tuple[CommitFile, Future[bytes]]] = deque()
        ahead = 0
        for file in files:
            waiting.append((file, pool.submit(_fetch, store, file)))
            ahead += file.size
            while waiting and (ahead > _AHEAD_BYTES or len(waiting) > 2 * _THREADS):
                first, fetched = waiting.popleft()
                ahead -= first.size
                yield first, fetched.result()
        for first, fetched in waiting:
            yield first, fetched.result()


def _fetch(store: ObjectStore, file: CommitFile) -> bytes:
    try:
        payload = store.get(file.key)
    except ObjectNotFoundError as error:
        raise SourceChangedError(
            f"Version {file.version} was listed at {store.uri} and is gone.", version=file.version
        ) from error
    if len(payload) != file.size:
        raise SourceChangedError(
            f"Version {file.version} at {store.uri} has {len(payload)} bytes; it was listed with "
            f"{file.size}.",
            version=file.version,
        )
    return payload
