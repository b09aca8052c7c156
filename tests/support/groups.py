"""Let appends of several threads meet in one group."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import deltasql
import processes
from builders import an_add
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked

# Where an append that is sent alone stops first, by database.
_ALONE = {"before-begin", "before-append-call"}


def commit_in_one_group(
    catalog: deltasql.Catalog,
    table: deltasql.Table,
    writes: Sequence[Callable[[], int]],
    hook: Callable[[str], object] = lambda _: None,
) -> list[int | BaseException]:
    """Run each write in a thread of its own, all of them in one group; return what came of each.

    An append of the test leads until all others wait. `hook` is called at every crash point after.
    """
    table.commit([an_add("warm")])  # groups are for tables whose definition is known
    queues = inspect(catalog).metastore.committer._groups._queues
    all_wait = threading.Event()

    def hold(point: str) -> None:
        if threading.current_thread().name != "first":
            hook(point)
        elif point in _ALONE:
            assert all_wait.wait(60)

    outcomes: list[int | BaseException] = [RuntimeError("it did not end")] * len(writes)

    def run(number: int) -> None:
        try:
            outcomes[number] = writes[number]()
        except BaseException as error:  # noqa: BLE001 (returned to the test)
            outcomes[number] = error

    def waiting() -> list[Any]:
        queue = queues.get(table.table_id)
        return [] if queue is None else queue.waiting

    with hooked(hold):
        threads = [threading.Thread(target=lambda: table.commit([an_add("first")]), name="first")]
        threads[0].start()
        processes.until(lambda: table.table_id in queues)
        for number in range(len(writes)):
            threads.append(threading.Thread(target=run, args=(number,)))
            threads[-1].start()
            processes.until(lambda n=number: len(waiting()) == n + 1)
        all_wait.set()
        for thread in threads:
            thread.join()
    return outcomes
