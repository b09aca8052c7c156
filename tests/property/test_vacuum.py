"""Vacuum under attack: whatever was done to a table, nothing that must stay is ever deleted.

What must stay is found by replaying the commits' bytes one by one, by nothing that vacuum uses.
"""

import itertools
import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deltasql
from builders import SCHEMA, a_remove, an_add
from deltasql.errors import DeltaSqlError
from deltasql.metastore.references import vector_path
from deltasql.protocol.actions import Add, DeletionVector, Protocol, Remove
from deltasql.protocol.codec import decode_commit
from deltasql.testing import inspect
from deltasql.testing.invariants import check_invariants

DAY = 24 * 3600 * 1000
KEEP = 7 * DAY
START = 1_700_000_000_000
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_FEATURES = ["appendOnly", "deletionVectors", "deltasqlManaged", "inCommitTimestamp", "invariants"]
VECTORS = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=["deletionVectors"],
    writer_features=_FEATURES,
)

WHICH = st.integers(0, 20)
CHANGES = [
    st.tuples(st.just("append"), st.integers(1, 3)),
    st.tuples(st.just("remove"), WHICH),
    st.tuples(st.just("remove"), WHICH),
    st.tuples(st.just("vector"), WHICH, st.integers(0, 1)),
    st.tuples(st.just("vector"), WHICH, st.integers(0, 1)),
    st.tuples(st.just("clone"), WHICH, st.booleans()),
    st.tuples(st.just("unclone"), WHICH),
    st.tuples(st.just("restore"), WHICH),
    st.tuples(st.just("orphan"), st.integers(0, 12)),
    st.tuples(st.just("pause")),
    st.tuples(st.just("resume")),
]
# Some changes, then time passes, then vacuum: again and again.
ROUND = st.tuples(
    st.lists(st.one_of(CHANGES), min_size=1, max_size=5), st.sampled_from([0, 1, 4, 8, 8])
)
ROUNDS = st.lists(ROUND, min_size=2, max_size=6)


def _z85(data: bytes) -> str:
    words = [int.from_bytes(data[at : at + 4], "big") for at in range(0, len(data), 4)]
    return "".join(_Z85[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))


class World:
    """A table, a clone of it, and a clock; objects are real files."""

    def __init__(self, uri: str, folder: Path) -> None:
        self.now = START
        self.names = itertools.count()
        self.catalog = deltasql.connect(uri, clock=lambda: self.now)
        self.place = folder / "lake"
        options = {"schema": SCHEMA, "partition_by": []}
        self.table = self.catalog.create_table("orders", location=str(self.place), **options)
        self.clone = self.catalog.create_table("clone", location=str(folder / "clone"), **options)
        for table in (self.table, self.clone):
            table.commit([VECTORS])
        self.vector_files = [uuid.UUID(int=number + 1) for number in range(3)]

    def put(self, name: str, at: int | None = None) -> None:
        file = self.place / name
        file.write_bytes(b"x")
        moment = (self.now if at is None else at) / 1000
        os.utime(file, (moment, moment))

    def do(self, step: tuple) -> None:
        self.now += 1000
        {"clone": self.refer}.get(step[0], getattr(self, step[0]))(*step[1:])

    def append(self, count: int) -> None:
        adds = []
        for _ in range(count):
            name = f"file {next(self.names)}.parquet"
            self.put(name)
            adds.append(_file(name.replace(" ", "%20")))
        self.table.commit(adds)

    def remove(self, which: int) -> None:
        live = _live(self.table)
        if live:
            self.table.commit([a_remove(live[which % len(live)])])

    def vector(self, which: int, file: int) -> None:
        live = _live(self.table)
        if not live:
            return
        old = live[which % len(live)]
        unique = self.vector_files[file]
        name = f"deletion_vector_{unique}.bin"
        if not (self.place / name).exists():
            self.put(name)
        vector = DeletionVector(
            storage_type="u",
            path_or_inline_dv=_z85(unique.bytes),
            offset=next(self.names),
            size_in_bytes=1,
            cardinality=1,
        )
        self.table.commit([a_remove(old), _file(old.path, deletion_vector=vector)])

    def refer(self, which: int, and_remove: bool) -> None:
        live = _live(self.table)
        if live:
            chosen = live[which % len(live)]
            self.clone.commit([_file(f"{self.place.as_uri()}/{chosen.path}")])
            if and_remove:
                self.table.commit([a_remove(chosen)])

    def unclone(self, which: int) -> None:
        live = _live(self.clone)
        if live:
            self.clone.commit([a_remove(live[which % len(live)])])

    def restore(self, which: int) -> None:
        version = which % (self.table.version + 1)
        if version == 0:
            return
        try:
            self.table.restore(version=version)
        except DeltaSqlError:
            # refused: then some file of that version is really gone
            gone = [key for key in _keys(self.table, version) if not (self.place / key).exists()]
            assert gone

    def orphan(self, age_days: int) -> None:
        self.put(f"left-{next(self.names)}.parquet", self.now - age_days * DAY)

    def pause(self) -> None:
        self.catalog.mirror.pause("orders")

    def resume(self) -> None:
        self.catalog.mirror.resume("orders")
        self.catalog.mirror.run_once()

    def vacuum(self) -> None:
        needed = {key for key in self.needed() if (self.place / key).exists()}
        old = {
            file.name
            for file in self.place.glob("left-*")
            if file.stat().st_mtime * 1000 < self.now - KEEP
        }
        told = {one.key for one in self.table.vacuum()}
        gone = {one.key for one in self.table.vacuum(dry_run=False)}
        assert told == gone
        assert not gone & needed
        assert all((self.place / key).exists() for key in needed)
        assert old <= gone
        assert {one.key for one in self.table.vacuum(dry_run=False)} == set()

    def needed(self) -> Iterator[str]:
        """Everything that a version within retention or not yet mirrored refers to."""
        last = self.table.version
        times = {entry.version: entry.committed_at for entry in self.table.history()}
        mirrored = self.catalog.mirror.status("orders")["mirrored_through"]
        for version in range(last + 1):
            ended = times.get(version + 1)
            if ended is None or _ms(ended) >= self.now - KEEP or version >= mirrored:
                yield from _keys(self.table, version)
        prefix = f"{self.place.as_uri()}/"
        for version in range(self.clone.version + 1):
            for path in _paths(self.clone, version):
                if path.startswith(prefix):
                    yield path.removeprefix(prefix).replace("%20", " ")


def _ms(moment) -> int:
    return moment if isinstance(moment, int) else round(moment.timestamp() * 1000)


def _file(path: str, **changes) -> Add:
    return an_add(path, day=None, partition_values={}, **changes)


def _state(table, version: int) -> dict:
    book, found = inspect(table).metastore, {}
    for number in range(version + 1):
        payload = book.payload(table.table_id, number)
        actions = decode_commit(payload, version=number, lenient=True)
        for action in actions:
            if isinstance(action, Remove):
                found.pop((action.path, action.dv_id), None)
        for action in actions:
            if isinstance(action, Add):
                found[action.path, action.dv_id] = action
    return found


def _live(table) -> list[Add]:
    return [add for _, add in sorted(_state(table, table.version).items())]


def _paths(table, version: int) -> Iterator[str]:
    for add in _state(table, version).values():
        yield add.path
        if add.deletion_vector is not None:
            yield vector_path(add.deletion_vector)


def _keys(table, version: int) -> set[str]:
    return {path.replace("%20", " ") for path in _paths(table, version)}


def _attack(uri: str, rounds: list, folder: Path) -> None:
    world = World(uri, folder)
    try:
        world.append(3)
        for changes, days in rounds:
            for step in changes:
                world.do(step)
            world.now += days * DAY
            world.vacuum()
        check_invariants(world.catalog, "clone")
    finally:
        world.catalog.close()


@pytest.mark.req("R92")
@settings(max_examples=int(os.environ.get("DELTASQL_FUZZ_EXAMPLES", "40")))
@given(rounds=ROUNDS)
def test_nothing_that_must_stay_is_ever_deleted(rounds):
    with tempfile.TemporaryDirectory() as folder:
        _attack(f"deltasql://sqlite/{folder}/c.db", rounds, Path(folder))


@pytest.mark.verify
@settings(max_examples=12)
@given(rounds=ROUNDS)
def test_nothing_that_must_stay_is_ever_deleted_on_postgresql(postgres_server, rounds):
    uri = postgres_server.uri(postgres_server.create_database_name())
    with tempfile.TemporaryDirectory() as folder:
        _attack(uri, rounds, Path(folder))
