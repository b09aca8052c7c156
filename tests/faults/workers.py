"""Programs that tests run in processes of their own, and kill."""

import itertools
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import deltasql
from builders import NO_MIRROR, a_table, an_add, ids, rows
from deltasql.errors import CommitConflictError, DeltaSqlError
from deltasql.mirror.worker.reconciler import ReconciliationConfig
from deltasql.settings import MirrorSettings, Settings
from deltasql.testing.crash_points import hooked


def append_many(uri: str, table: str, worker: str, count: str, mirror: str) -> None:
    """Append blindly `count` times; print {token: version} of what was acknowledged."""
    settings = NO_MIRROR if mirror == "off" else None
    acknowledged = {}
    with deltasql.connect(uri, settings=settings) as catalog:
        orders = catalog.table(table)
        for number in range(int(count)):
            token = f"{worker}-{number}"
            acknowledged[token] = orders.commit([an_add(f"{token}.parquet")], commit_id=token)
    print(json.dumps(acknowledged))


def append_telling(uri: str, table: str, worker: str) -> None:
    """Append until killed, telling each acknowledged commit at once."""
    _append_until_killed(uri, table, worker, None)


def _append_until_killed(uri: str, table: str, worker: str, settings: Settings | None) -> None:
    with deltasql.connect(uri, settings=settings) as catalog:
        orders = catalog.table(table)
        print("ready", flush=True)
        for number in itertools.count():
            token = f"{worker}-{number}"
            version = orders.commit([an_add(f"{token}.parquet")], commit_id=token)
            print(json.dumps([token, version]), flush=True)


def append_by_threads(uri: str, table: str, threads: str) -> None:
    """Append by many threads until killed, telling each acknowledged commit at once."""
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        orders = catalog.table(table)
        orders.version  # noqa: B018 (opens the catalog before the threads do)

        def append(worker: int) -> None:
            for number in itertools.count():
                token = f"{worker}-{number}"
                version = orders.commit([an_add(token)], commit_id=token)
                os.write(1, f"{json.dumps([token, version])}\n".encode())  # one line, whole

        _in_threads(append, int(threads))


def mix_by_threads(uri: str, table: str, seed: str, threads: str, count: str) -> None:
    """Append, delete, overwrite and commit transactions by many threads; print what was made."""
    acknowledged: dict[str, int] = {}
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        orders = catalog.table(table)

        def work(worker: int) -> None:
            chance = random.Random(f"{seed}-{worker}")
            for number in range(int(count)):
                token = f"{seed}-{worker}-{number}"
                with suppress(CommitConflictError):
                    version = _any_write(catalog, orders, chance, token)
                    if version is not None:
                        acknowledged[token] = version

        _in_threads(work, int(threads))
    print(json.dumps(acknowledged))


def _any_write(
    catalog: deltasql.Catalog, orders: deltasql.Table, chance: random.Random, token: str
) -> int | None:
    """Make one write of a random kind; None where it changed nothing."""
    day = chance.choice("abc")
    kind = chance.random()
    if kind < 0.8:
        return orders.commit([an_add(token)], commit_id=token)
    if kind < 0.9:
        with catalog.transaction(commit_id=token) as tx:
            tx.table("orders").commit([an_add(token)])
        return tx.versions["orders"]
    if kind < 0.95:
        return orders.append(rows(1, day=day), commit_id=token)
    orders.delete(f"day = '{day}'", commit_id=token)
    return orders.version_of(token)


def _in_threads(work: Callable[[int], None], count: int) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def append_through(uri: str, table: str, worker: str) -> None:
    """Append until killed, whatever the database does: each token is sent until it is answered."""
    with deltasql.connect(uri, settings=WORKED) as catalog:
        orders = catalog.table(table)
        print("ready", flush=True)
        for number in itertools.count():
            token = f"{worker}-{number}"
            print(json.dumps([token, _insist(orders, token)]), flush=True)


def _insist(orders: deltasql.Table, token: str) -> int:
    while True:
        try:
            return orders.commit([an_add(f"{token}.parquet")], commit_id=token)
        except DeltaSqlError as error:
            if not error.retryable:
                raise


def mixed(uri: str, table: str, worker: str, count: str, mirror: str) -> None:
    """Append, replace and delete partitions; print what was acknowledged and what refused."""
    settings = NO_MIRROR if mirror == "off" else None
    seed = int(worker)
    acknowledged, refused, unchanged = {}, {}, []
    with deltasql.connect(uri, settings=settings) as catalog:
        for number in range(int(count)):
            seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
            choice, day = (seed >> 33) % 10, "abcd"[(seed >> 40) % 4]
            token = f"{worker}-{number}"
            try:
                with catalog.transaction(commit_id=token) as tx:
                    staged = tx.table(table)
                    if choice < 6:
                        staged.commit([an_add(f"{token}.parquet", day=day)])
                    elif choice < 8:
                        staged.delete(f"day = '{day}'")
                    else:
                        staged.overwrite(rows(number, day=day), where=f"day = '{day}'")
                if tx.versions:
                    acknowledged[token] = tx.versions[table]
                else:  # a delete that matched nothing
                    unchanged.append(token)
            except CommitConflictError as error:
                refused[token] = error.context
    told = {"acknowledged": acknowledged, "refused": refused, "unchanged": unchanged}
    print(json.dumps(told))


def crash_work(uri: str, place: str) -> None:
    """Do the work, telling each acknowledged commit at once."""
    try:
        do_crash_work(uri, place, _tell)
    except DeltaSqlError as error:
        print(f"error {error.code} {error}", file=sys.stderr)
        sys.exit(9)


def do_crash_work(uri: str, place: str, tell: Callable[[str, str, int], object]) -> None:
    """A little of everything, in a fixed order; what was done before is found to be done."""
    with deltasql.connect(uri) as catalog:
        orders = catalog.create_table(
            "orders",
            location=f"{place}/orders",
            schema=rows(1).schema,
            partition_by=["day"],
            exist_ok=True,
        )
        totals = catalog.create_table(
            "totals", location=f"{place}/totals", schema=rows(1).schema, exist_ok=True
        )
        tell("create", "orders", 0)
        for number in range(2):
            token = f"append-{number}"
            tell(token, "orders", orders.append(rows(number, day="a"), commit_id=token))
        with catalog.transaction(commit_id="both") as tx:
            tx.table("orders").append(rows(7, day="b"))
            tx.table("totals").append(rows(70))
        tell("both", "orders", tx.versions["orders"])
        tell("both", "totals", tx.versions["totals"])
        tell("delete", "orders", orders.delete("day = 'a'", commit_id="delete"))
        tell("alter", "orders", orders.alter(properties={"k": "v"}, commit_id="alter"))
        totals.append(rows(71), commit_id="last")


WORKED = Settings(
    mirror=MirrorSettings(
        mode="worker", checkpoint_interval=3, lease_ttl=timedelta(seconds=1), max_concurrency=2
    )
)


def serve(uri: str) -> None:
    """A mirror worker that runs until it is killed; looks often."""
    with deltasql.connect(uri, settings=WORKED) as catalog:
        print("ready", flush=True)
        config = ReconciliationConfig(
            interval=timedelta(seconds=0.2), poll=timedelta(seconds=0.02), max_concurrency=2
        )
        catalog.mirror.reconciler(config).run(threading.Event())


def append_unmirrored(uri: str, table: str, worker: str) -> None:
    """Append until killed, leaving the log to the workers; tells each acknowledged commit."""
    _append_until_killed(uri, table, worker, WORKED)


def mirror_work(uri: str, place: str) -> None:
    """Commit without mirroring, then mirror everything and write the checkpoint that is due."""
    settings = Settings(mirror=MirrorSettings(mode="worker", checkpoint_interval=2))
    with deltasql.connect(uri, settings=settings) as catalog:
        orders = catalog.create_table(
            "orders", location=f"{place}/orders", schema=rows(1).schema, exist_ok=True
        )
        for number in range(6):
            orders.append(rows(number), commit_id=f"append-{number}")
        catalog.mirror.run_once()


def verify_once(uri: str) -> None:
    """Compare the log of the table whose turn it is with SQL, as a worker does."""
    with deltasql.connect(uri) as catalog:
        catalog.mirror.reconciler().verify.step(threading.Event())


def settle_contest(uri: str, way: str) -> None:
    """Settle a contest by the operator's word."""
    with deltasql.connect(uri) as catalog:
        catalog.mirror.repair("orders", **{way: True})


def _tell(token: str, table: str, version: int) -> None:
    print(json.dumps([token, table, version]), flush=True)


def read_often(uri: str, table: str, count: str) -> None:
    """Open snapshots again and again; print the versions that were seen."""
    seen = []
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        for _ in range(int(count)):
            snapshot = catalog.table(table).snapshot()
            assert snapshot.files(["path"]).num_rows == snapshot.version
            seen.append(snapshot.version)
    print(json.dumps(seen))


def append_interrupted_beside_threads(uri: str, table: str, seed: str, count: str) -> None:
    """Append by threads, and by the main thread while Ctrl-C comes; print what was acknowledged.

    Prints the longest wait of a thread too: an interrupted leader must not leave anybody waiting.
    """
    chance = random.Random(int(seed))
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    acknowledged: dict[str, int] = {}
    waits: list[float] = []
    is_over = threading.Event()
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        orders = catalog.table(table)
        orders.version  # noqa: B018 (opens the catalog before the threads do)

        def append(worker: int) -> None:
            number = 0
            while not is_over.is_set():
                token, number, started = f"{worker}-{number}", number + 1, time.monotonic()
                acknowledged[token] = orders.commit([an_add(token)], commit_id=token)
                waits.append(time.monotonic() - started)

        threads = [threading.Thread(target=append, args=(n,), daemon=True) for n in range(4)]
        for thread in threads:
            thread.start()
        tokens = [f"main-{number}" for number in range(int(count))]
        interrupts = 0
        for token in tokens:
            try:
                started = time.monotonic()
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, 0.02))
                while time.monotonic() < started + 1.0:
                    acknowledged[token] = orders.commit([an_add(token)], commit_id=token)
            except KeyboardInterrupt:
                interrupts += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        for token in tokens:
            acknowledged[token] = orders.commit([an_add(token)], commit_id=token)
        is_over.set()
        for thread in threads:
            thread.join()
    found = {"acknowledged": acknowledged, "interrupts": interrupts, "longest_wait_s": max(waits)}
    print(json.dumps(found))


def append_interrupted(uri: str, table: str, seed: str, count: str) -> None:
    """Append and read while Ctrl-C comes at random moments; print what was acknowledged.

    An interrupted call may have committed or not: its token is sent again at the end.
    """
    chance = random.Random(int(seed))
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    acknowledged: dict[str, int] = {}
    interrupted = []
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        orders = catalog.table(table)
        for number in range(int(count)):
            token = f"i-{number}"
            try:
                started = time.monotonic()
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, 0.006))
                # Python drops an interrupt that comes inside of a __del__
                while time.monotonic() < started + 1.0:
                    acknowledged[token] = orders.commit([an_add(token)], commit_id=token)
                    assert orders.version >= acknowledged[token]
                    orders.snapshot().files(["path"])
            except KeyboardInterrupt:
                interrupted.append(token)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        for token in interrupted:
            acknowledged[token] = orders.commit([an_add(token)], commit_id=token)
        assert orders.version == catalog.table(table).version
    print(json.dumps(acknowledged))


def write_as_nobody(uri: str) -> None:
    """Read and try to write as a user who may only read; print the version and the refusal."""
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:  # loads what nobody may not read
        assert catalog.table("orders").snapshot().files(["path"]).num_rows
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        version = catalog.table("orders").version
        try:
            catalog.new_epoch()
        except DeltaSqlError as error:
            print(json.dumps([version, error.code, error.message]))


def undrop(uri: str, name: str) -> None:
    """Bring a table back; print the code of the refusal, or `done`."""
    with deltasql.connect(uri) as catalog:
        _print_outcome(lambda: catalog.undrop_table(name))


def vacuum(uri: str, name: str) -> None:
    """Delete whatever no version but the newest needs."""
    with deltasql.connect(uri) as catalog:
        options = {"retain": timedelta(0), "allow_short_retention": True}
        catalog.table(name).vacuum(dry_run=False, **options)


def create(uri: str, name: str, place: str) -> None:
    """Create a table; print the code of the refusal, or `done`."""
    with deltasql.connect(uri) as catalog:
        _print_outcome(lambda: a_table(catalog, Path(place), name))


def _print_outcome(call: Callable[[], object]) -> None:
    try:
        call()
    except DeltaSqlError as error:
        print(json.dumps(error.code))
    else:
        print(json.dumps("done"))


def look(uri: str) -> None:
    """Read a catalog, try to write to it, and print what was found and the refusal."""
    found: dict[str, object] = {}
    try:
        with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
            found["tables"] = [info.name for info in catalog.tables()]
            orders = catalog.table("orders")
            found["ids"] = ids(orders)
            found["history"] = [entry.version for entry in orders.history()]
            orders.commit([an_add("c")])
    except DeltaSqlError as error:
        found |= {"code": error.code, "message": error.message}
    print(json.dumps(found))


def look_as_nobody(uri: str) -> None:
    """Look as a user who has no rights but everybody's."""
    _become_nobody()
    look(uri)


def follow_as_nobody(uri: str) -> None:
    """Print the rows of a table, once more for each line of the input, three times in all."""
    _become_nobody()
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        for step in range(3):
            if step:
                sys.stdin.readline()
            print(json.dumps(ids(catalog.table("orders"))), flush=True)


def open_slowly(uri: str) -> None:
    """Open the catalog, and wait for a line where the log's index is still empty."""

    def wait(point: str) -> None:
        if point == "after-sqlite-index-joined":
            print(point, flush=True)
            sys.stdin.readline()

    with hooked(wait), deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        print(catalog.table("orders").version)


def _become_nobody() -> None:
    with tempfile.TemporaryDirectory() as folder:  # loads what nobody may not read
        place = f"{folder}/catalog.db"
        with deltasql.connect(f"deltasql://sqlite/{place}", settings=NO_MIRROR) as catalog:
            table = a_table(catalog, Path(folder))
            table.append(rows(1))
            assert ids(table) == [1]
            assert table.history()
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
