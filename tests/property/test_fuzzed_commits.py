"""Damaged commits: a typed error that names the line, or the right answer. Nothing else, ever.

The same mutations on every run. `make fuzz` takes new ones: DELTASQL_FUZZ_EXAMPLES says how many,
and a failure tells the seed that DELTASQL_FUZZ_SEED repeats.
"""

import os
import random
from pathlib import Path

import msgspec
import pytest

import deltasql
from builders import NO_MIRROR, SCHEMA
from commits import COMMITS, add
from deltasql.errors import DeltaSqlError, MalformedActionError
from deltasql.protocol.actions import Add, CommitInfo, Metadata, Protocol, Remove, file_key
from deltasql.protocol.codec import decode_commit, serialize_actions
from deltasql.protocol.validate import validate_payload
from deltasql.testing import inspect
from histories import replay
from mutations import mutated

_IS_FIXED = os.environ.get("HYPOTHESIS_PROFILE", "fixed") == "fixed"
EXAMPLES = int(os.environ.get("DELTASQL_FUZZ_EXAMPLES", "5000"))
SEED = os.environ.get(
    "DELTASQL_FUZZ_SEED", "1" if _IS_FIXED else str(random.SystemRandom().random())
)
PARTS = 10
PAYLOADS = [serialize_actions(actions) for actions in COMMITS.values()]


def examples(part: int):
    """Yield (name, payload); each depends on the seed and its own number only."""
    for number in range(part, EXAMPLES, PARTS):
        name = f"{SEED}:{number}"
        chance = random.Random(name)
        yield name, mutated(chance, chance.choice(PAYLOADS))


def decoded(payload: bytes, *, lenient: bool):
    """The actions, or None after making sure that the error tells where."""
    try:
        return decode_commit(payload, version=77, lenient=lenient)
    except MalformedActionError as error:
        check_place(error, payload)
        return None


def check_place(error: MalformedActionError, payload: bytes) -> None:
    """The error names the version and a line that the payload has."""
    line = error.context["line"]
    assert 1 <= line <= payload.count(b"\n") + 1
    assert error.context["version"] == 77
    assert f"version 77, line {line}" in str(error)
    check_message(error)


def check_message(error: DeltaSqlError) -> None:
    """One printable line, whatever the commit tried to smuggle into it."""
    assert str(error).isprintable()
    assert 10 < len(str(error)) <= 1000


def lines(actions) -> list[bytes]:
    return sorted(serialize_actions([action]) for action in actions)


class Book:
    """A catalog without a mirror, with a table that takes every kind of commit."""

    def __init__(self, tmp_path: Path, uri: str) -> None:
        self.folder = tmp_path
        self.catalog = deltasql.connect(uri, settings=NO_MIRROR)
        self.catalog.create_if_missing()
        self.made = 0
        self.tables: list[deltasql.Table] = []
        self.renew()

    def renew(self) -> None:
        properties = {
            "delta.enableDeletionVectors": "true",
            "delta.feature.domainMetadata": "supported",
        }
        name = f"t{len(self.tables)}"
        place = f"memory://{self.folder.name}/{name}"
        self.tables.append(
            self.catalog.create_table(
                name, location=place, schema=SCHEMA, partition_by=["day"], properties=properties
            )
        )

    @property
    def table(self) -> deltasql.Table:
        return self.tables[-1]

    def commit(self, actions) -> None:
        if any(isinstance(action, Protocol) for action in actions):
            self.renew()  # on an empty table: no file there needs a feature that is dropped
        self._add_what_will_be_removed(actions)
        try:
            version = self.table.commit(actions)
        except DeltaSqlError as error:
            check_message(error)
            return
        self.made += 1
        payload = self.payload(self.table, version)
        validate_payload(payload, version=version)
        stored = decode_commit(payload, version=version)
        assert lines(without_info(stored, actions)) == lines(without_info(actions, stored))
        if any(isinstance(action, Metadata | Protocol) for action in actions):
            assert set(self.table.snapshot().metadata.partition_columns) <= set(
                self.table.schema.names
            )
            self.renew()

    def payload(self, table, version: int) -> bytes:
        return inspect(self.catalog).metastore.payload(table.table_id, version)

    def _add_what_will_be_removed(self, actions) -> None:
        adds = [
            add(action.path, deletion_vector=action.deletion_vector)
            for action in actions
            if isinstance(action, Remove)
        ]
        try:
            if adds:
                self.table.commit(adds)
        except DeltaSqlError:
            pass  # then the remove is refused too


def without_info(actions, others):
    """The actions but commitInfo, which a commit writes anew; removes get their time from it."""
    times = {
        (file_key(action)): action.deletion_timestamp
        for action in others
        if isinstance(action, Remove)
    }
    return [
        msgspec.structs.replace(
            action, deletion_timestamp=action.deletion_timestamp or times[file_key(action)]
        )
        if isinstance(action, Remove)
        else action
        for action in actions
        if not isinstance(action, CommitInfo)
    ]


@pytest.fixture
def open_book(tmp_path, monkeypatch):
    """Open a book that is closed after the test."""
    monkeypatch.chdir(tmp_path)
    opened = []

    def call(uri: str) -> Book:
        opened.append(Book(tmp_path, uri))
        return opened[-1]

    yield call
    for one in opened:
        one.catalog.close()


@pytest.mark.req("R40")
@pytest.mark.parametrize("part", range(PARTS))
def test_a_damaged_commit_is_refused_by_line_or_kept_right(open_book, tmp_path, part):
    run(open_book(f"deltasql://sqlite/{tmp_path}/catalog.db"), part)


def test_postgresql_keeps_them_right_too(open_book, postgres_server):
    run(open_book(postgres_server.uri(postgres_server.create_database_name())), 0)


def run(book: Book, part: int) -> None:
    understood = 0
    for name, payload in examples(part):
        try:
            understood += follow(book, payload)
        except Exception as error:
            error.add_note(f"DELTASQL_FUZZ_SEED={SEED}, example {name}: {payload[:2000]!r}")
            raise
    assert understood > EXAMPLES / PARTS / 10
    assert book.made > EXAMPLES / PARTS / 50
    check_book(book)


def follow(book: Book, payload: bytes) -> bool:
    """Follow one payload through decoder, encoder and catalog; tell whether it was understood."""
    strict = decoded(payload, lenient=False)
    lenient = decoded(payload, lenient=True)
    if strict is not None:
        assert lenient == strict
    if lenient is None:
        return False
    canonical = serialize_actions(lenient)
    again = decode_commit(canonical, version=77)
    assert serialize_actions(again) == canonical
    assert lines(again) == lines(lenient)
    book.commit(lenient)
    return True


def check_book(book: Book) -> None:
    """SQL equals a replay of what is stored, and nothing was written anywhere else."""
    for table in book.tables:
        stored = range(table.version + 1)
        commits = [(n, decode_commit(book.payload(table, n), version=n)) for n in stored]
        files = replay(commits).files
        found = table.snapshot().files(["path", "dv_id", "size"]).to_pylist()
        assert {(one["path"], one["dv_id"], one["size"]) for one in found} == {
            (one.path, one.dv_id, one.size) for one in files.values()
        }
        assert all(isinstance(one, Add) for one in files.values())
    written = {path.name for path in book.folder.rglob("*") if path.is_file()}
    assert written <= {"catalog.db", "catalog.db-wal", "catalog.db-shm", "catalog.db-lock"}
