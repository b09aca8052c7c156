"""A worker's verify lists the log, compares tags and reads few objects, and finds all the same."""

import os
import shutil
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

import deltasql
from builders import SCHEMA, a_table, an_add
from deltasql.events import LogDiffers, LogVerified, ReconcilerFailed
from deltasql.mirror.object_tags import ROTATION, CommitTag, ObjectTags
from deltasql.protocol.log_names import LOG_FOLDER, checkpoint_path, commit_key
from deltasql.settings import MirrorSettings, Settings
from deltasql.storage.memory import shared_bucket
from deltasql.storage.port import ObjectTag
from deltasql.storage.resolve import open_store
from deltasql.testing import inspect
from deltasql.testing.faulty_store import Fault, FaultyStore, Kind
from plugins.store_fixtures import _place
from processes import start

DAY = 24 * 3_600_000
NEVER = threading.Event()
VERSIONS = 2 * ROTATION
pytestmark = pytest.mark.req("R35", "R93")


class World:
    """A catalog with one table, a clock that is moved by hand, and every request to its store."""

    def __init__(self, uri: str, place: tuple[str, dict[str, str]], *faults: Fault) -> None:
        self.now, self.events, self.stores = 1_800_000_000_000, [], []
        self.uri, (self.location, self.options), self.faults = uri, place, faults
        self.catalog = self.connect()
        self.catalog.create_if_missing()

    def connect(self, **mirror) -> deltasql.Catalog:
        settings = MirrorSettings(**{"checkpoint_interval": 10_000, **mirror})
        return deltasql.connect(
            self.uri,
            settings=Settings(mirror=settings),
            storage_options=self.options,
            clock=lambda: self.now,
            sink=self.events.append,
            wrap_store=self._wrap,
        )

    def _wrap(self, store):
        self.stores.append(FaultyStore(store, self.faults))
        return self.stores[-1]

    def create(self, versions: int = VERSIONS) -> deltasql.Table:
        table = self.catalog.create_table(
            "orders", location=self.location, schema=SCHEMA, partition_by=["day"]
        )
        for number in range(1, versions):
            table.commit([an_add(f"f{number}")])
        return table

    @property
    def raw(self):
        """The table's store, without anything in between."""
        return open_store(self.location, self.options)

    def sql(self, text: str) -> None:
        database = inspect(self.catalog).database
        with database.write() as tx:
            tx.connection.execute(text if database.dialect.name == "sqlite" else text.encode())

    def end_leases(self) -> None:
        long_ago = inspect(self.catalog).database.queries.constants["long_ago"]
        self.sql(f"update dl_leases set expires_at = {long_ago}")

    def forget_verification(self) -> None:
        long_ago = inspect(self.catalog).database.queries.constants["long_ago"]
        self.sql(f"update dl_tables set verify_started_at = {long_ago}")

    def forget_tags(self) -> None:
        """As a catalog is that was made before tags were remembered."""
        self.sql("update dl_mirror_status set object_size = null, object_tag = null")

    def verify(self) -> LogVerified:
        """Let a day go by and a worker verify; return what it reports."""
        self.now += DAY
        for store in self.stores:
            store.calls.clear()
        self.catalog.mirror.reconciler().verify.step(NEVER)
        assert self.told(ReconcilerFailed) == []
        return self.told(LogVerified)[-1]

    def told(self, kind) -> list:
        return [event for event in self.events if isinstance(event, kind)]

    def found(self) -> list[tuple[str, str]]:
        """Verify, and return what was found."""
        self.events.clear()
        self.verify()
        return [(event.difference, event.key) for event in self.told(LogDiffers)]

    def requests(self, operation: str) -> list[str]:
        calls = [call for store in self.stores for call in store.calls]
        return [call.key for call in calls if call.operation == operation]

    def commits_read(self) -> list[str]:
        keys = self.requests("open_input") + self.requests("get")
        return sorted(key for key in keys if key.endswith(".json"))

    def tags(self) -> dict[int, ObjectTag]:
        table_id = self.catalog.table("orders").table_id
        return ObjectTags(inspect(self.catalog).database).of_commits(table_id, 0, 10_000)


@pytest.fixture(params=["local", "memory", "s3"])
def place(request, tmp_path, fresh_name):
    return _place(request.param, request, tmp_path, fresh_name)


@pytest.fixture
def world(catalog_uri, place):
    made = World(catalog_uri, place)
    yield made
    made.catalog.close()


@pytest.fixture
def local_world(catalog_uri, tmp_path):
    made = World(catalog_uri, (str(tmp_path / "table"), {}))
    yield made
    made.catalog.close()


def turn(run: int) -> list[str]:
    """The commits that a run reads in any case."""
    return [commit_key(version) for version in range(VERSIONS) if version % ROTATION == run]


def test_a_run_lists_the_log_once_and_reads_a_thirtieth(world):
    """Already the first one: the store's answers to the puts had the tags."""
    world.create()
    for run in range(3):
        event = world.verify()
        assert world.requests("list_from") == [LOG_FOLDER]
        assert world.commits_read() == turn(run)
        assert (event.objects_read, event.objects_by_tag) == (2, VERSIONS - 2)
        assert event.findings == 0


def test_thirty_runs_read_every_object_once(local_world):
    local_world.create(versions=45)
    read = []
    for _ in range(ROTATION):
        local_world.verify()
        read += local_world.commits_read()
    assert sorted(read) == [commit_key(version) for version in range(45)]


def test_a_catalog_without_tags_is_read_once(world):
    world.create()
    world.forget_tags()
    assert world.verify().objects_read == VERSIONS
    listed = {info.key: info.tag for info in world.raw.list_from(LOG_FOLDER)}
    assert world.tags() == {v: listed[commit_key(v)] for v in range(VERSIONS)}
    assert world.verify().objects_read == 2


def test_verify_on_request_reads_everything_and_writes_nothing(world):
    """A reader, who may not write in SQL, may verify."""
    world.create()
    world.forget_tags()
    for store in world.stores:
        store.calls.clear()
    assert world.catalog.mirror.verify("orders") == []
    assert world.commits_read() == [commit_key(version) for version in range(VERSIONS)]
    assert world.tags() == {}


def test_a_worker_that_mirrors_in_batches_remembers_tags_too(world):
    with world.connect(mode="worker") as other:
        world.catalog, old = other, world.catalog
        world.create(versions=10)
        other.mirror.run_once()
        listed = {info.key: info.tag for info in world.raw.list_from(LOG_FOLDER)}
        assert world.tags() == {v: listed[commit_key(v)] for v in range(10)}
        world.catalog = old


def test_a_put_whose_answer_was_lost_has_no_tag_until_it_was_read(catalog_uri, tmp_path):
    lost = Fault(Kind.FAIL_AFTER, "put_if_absent", key=commit_key(7))
    world = World(catalog_uri, (str(tmp_path / "table"), {}), lost)
    world.create(versions=10)
    assert sorted(world.tags()) == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    world.verify()
    assert world.commits_read() == [commit_key(0), commit_key(7)]
    assert sorted(world.tags()) == list(range(10))
    world.catalog.close()


def _flip(data: bytes) -> bytes:
    return data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]


def _foreign(data: bytes) -> bytes:
    return data.replace(b'"f7"', b'"g7"')


DAMAGES = {
    "flipped": lambda raw: raw.put(commit_key(7), _flip(raw.get(commit_key(7)))),
    "replaced": lambda raw: raw.put(commit_key(7), _foreign(raw.get(commit_key(7)))),
    "shorter": lambda raw: raw.put(commit_key(7), raw.get(commit_key(7))[:-9]),
    "empty": lambda raw: raw.put(commit_key(7), b""),
    "longer": lambda raw: raw.put(commit_key(7), raw.get(commit_key(7)) * 2),
    "missing": lambda raw: raw.delete(commit_key(7)),
    "above": lambda raw: raw.put(commit_key(12), raw.get(commit_key(7))),
    "stranger": lambda raw: raw.put(f"{LOG_FOLDER}stranger.json", b"{}"),
}


@pytest.mark.req("R28", "R87")
def test_every_damage_is_found_at_once_and_by_every_run(world):
    """And it is what a comparison of all bytes finds."""
    world.create(versions=12)
    assert world.found() == []
    good = {info.key: world.raw.get(info.key) for info in world.raw.list_from(LOG_FOLDER)}
    for name, damage in DAMAGES.items():
        damage(world.raw)
        wanted = [(str(f.difference), f.key) for f in world.catalog.mirror.verify("orders")]
        assert len(wanted) == 1, name
        assert world.found() == wanted, name
        assert world.found() == wanted, name
        for info in list(world.raw.list_from(LOG_FOLDER)):
            if info.key not in good:
                world.raw.delete(info.key)
        world.raw.put(commit_key(7), good[commit_key(7)])
        assert world.found() == [], name


def _rot_on_disk(world: World, key: str) -> bytes:
    """Change bytes as a disk does that loses them: time, size and name stay."""
    path = Path(world.location) / key
    good, status = path.read_bytes(), path.stat()
    path.write_bytes(_flip(good))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return good


def _rot_in_memory(world: World, key: str) -> bytes:
    bucket, _, prefix = world.location.removeprefix("memory://").partition("/")
    objects = shared_bucket(bucket).objects
    stored = objects[f"{prefix}/{key}"]
    objects[f"{prefix}/{key}"] = replace(stored, data=_flip(stored.data))
    return stored.data


@pytest.mark.req("R28")
@pytest.mark.parametrize("place", ["local", "memory"], indirect=True)
def test_bytes_that_change_under_their_tag_are_found_within_a_rotation(world):
    """From then on by every run, until they are right again."""
    world.create(versions=12)
    is_local = world.location.startswith("/")
    good = (_rot_on_disk if is_local else _rot_in_memory)(world, commit_key(7))
    finding = [("commit_bytes_differ", commit_key(7))]
    assert [world.found() for _ in range(7)] == [[]] * 7
    assert [world.found() for _ in range(3)] == [finding] * 3
    world.raw.put(commit_key(7), good)
    assert world.found() == []
    assert 7 in world.tags()


def test_checkpoints_are_read_once_and_then_compared_by_tag(local_world):
    local_world.create(versions=4)
    local_world.catalog.mirror.checkpoint("orders", 3)
    key = checkpoint_path(3)
    runs = []
    for _ in range(4):
        local_world.verify()
        runs.append(key in local_world.requests("open_input"))
    assert runs[0]
    assert runs.count(True) <= 2  # one of them may be its turn
    path = Path(local_world.location) / key
    path.write_bytes(_flip(path.read_bytes()))
    assert local_world.found() == local_world.found() == [("changed_file", key)]
    local_world.catalog.mirror.repair("orders")
    assert local_world.found() == []
    path.unlink()
    assert local_world.found() == [("missing_file", key)]


def test_a_tag_says_nothing_about_another_commit(local_world):
    """Neither is one remembered for bytes that SQL does not have."""
    table = local_world.create(versions=3)
    tags = ObjectTags(inspect(local_world.catalog).database)
    known = local_world.tags()
    tags.remember(table.table_id, [CommitTag(1, "0" * 64, ObjectTag(1, "wrong"))])
    assert local_world.tags() == known
    local_world.sql(f"update dl_mirror_status set digest = '{'0' * 64}' where version = 1")
    assert sorted(local_world.tags()) == [0, 2]


def test_a_log_that_was_lost_and_recovered_has_new_tags(local_world):
    local_world.create(versions=5)
    lost = local_world.tags()
    shutil.rmtree(Path(local_world.location) / LOG_FOLDER)
    local_world.catalog.new_epoch()
    local_world.catalog.close()
    local_world.catalog = local_world.connect()
    local_world.catalog.mirror.recover("orders")
    listed = {info.key: info.tag for info in local_world.raw.list_from(LOG_FOLDER)}
    assert local_world.tags() == {v: listed[commit_key(v)] for v in range(5)}
    assert not set(local_world.tags().values()) & set(lost.values())
    assert local_world.verify().findings == 0


@pytest.mark.parametrize("point", ["before-object-tags", "after-object-tags"])
def test_a_worker_killed_while_it_remembers_leaves_the_rest_to_the_next(
    catalog_uri, tmp_path, point
):
    with deltasql.connect(catalog_uri) as catalog:
        catalog.create_if_missing()
        table = a_table(catalog, tmp_path)
        for number in range(4):
            table.commit([an_add(f"f{number}")])
    world = World(catalog_uri, (table.location, {}))
    world.forget_tags()
    env = {"DELTASQL_TESTING": "1", "DELTASQL_CRASH_AT": point}
    process = start("verify_once", catalog_uri, env=env)
    _, err = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, err
    assert len(world.tags()) == (0 if point.startswith("before") else 5)

    world.end_leases()
    world.forget_verification()
    event = world.verify()
    # the run that was killed does not count: the same share is read again
    assert commit_key(0) in world.commits_read()
    assert event.objects_read == (5 if point.startswith("before") else 1)
    assert event.findings == 0
    assert sorted(world.tags()) == [0, 1, 2, 3, 4]
    world.catalog.close()


def test_commits_go_on_while_a_log_is_verified(world):
    table = world.create(versions=5)
    stop, failures = threading.Event(), []

    def commit() -> None:
        number = 0
        try:
            while not stop.is_set():
                number += 1
                table.commit([an_add(f"more{number}")])
        except BaseException as error:  # noqa: BLE001 (reported below)
            failures.append(error)

    thread = threading.Thread(target=commit)
    with world.connect() as other:
        worker = other.mirror.reconciler().verify
        thread.start()
        try:
            while len(world.told(LogVerified)) < 12 and thread.is_alive():
                world.now += DAY  # a log that is behind at this moment waits for the next look
                worker.step(NEVER)
        finally:
            stop.set()
            thread.join(60)
    assert failures == world.told(ReconcilerFailed) == world.told(LogDiffers) == []
    assert [event.findings for event in world.told(LogVerified)] == [0] * 12
    table.wait_mirrored(timeout=30)
    assert world.verify().findings == 0
    assert world.catalog.mirror.verify("orders") == []
    assert len(world.tags()) == table.refresh().current_version + 1
