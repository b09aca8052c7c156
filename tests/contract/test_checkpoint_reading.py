"""A checkpoint's files are read as one state, whatever happens meanwhile, and verified as read."""

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import deltasql
from builders import NO_MIRROR, a_remove, a_table, an_add
from deltasql.errors import CheckpointError, VersionNotFoundError
from deltasql.log.checkpoint_writer import CheckpointWriter
from deltasql.metastore.snapshot.checkpoint_source import CheckpointSource
from deltasql.mirror.checkpoints.check import WrittenRows, require_equal, require_written
from deltasql.mirror.checkpoints.write import checkpoint_rows
from deltasql.protocol.actions import DeletionVector, Protocol
from deltasql.protocol.checkpoint.layout import CheckpointShape
from deltasql.protocol.log_names import LAST_CHECKPOINT, checkpoint_path
from deltasql.testing import inspect

LONG_AGO = 1_800_000_000_000
MANY = 3_000  # more than one batch of SQLite's driver
VECTORS = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=["deletionVectors"],
    writer_features=[
        "appendOnly",
        "deletionVectors",
        "deltasqlManaged",
        "inCommitTimestamp",
        "invariants",
    ],
)


@pytest.fixture
def catalog(catalog_uri):
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as opened:
        opened.create_if_missing()
        yield opened


def source_of(catalog, table, version: int) -> CheckpointSource:
    return CheckpointSource(inspect(catalog).metastore.snapshot(table.table_id, version=version))


def paths_of(batches) -> list[str]:
    return [path for batch in batches for path in batch.column("path").to_pylist()]


def a_history(catalog, tmp_path):
    """Version 1 adds a to t, 2 gives some a vector, 3 removes some, 4 removes more, 5 adds one."""
    table = a_table(catalog, tmp_path)
    adds = [an_add(letter, size=n) for n, letter in enumerate("abcdefghijklmnopqrst")]
    table.commit([VECTORS, *adds])
    vector = DeletionVector(
        storage_type="u",
        path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^",
        offset=4,
        size_in_bytes=9,
        cardinality=1,
    )
    for add in adds[:2]:
        table.commit(
            [a_remove(add, deletion_timestamp=2**60), an_add(add.path, deletion_vector=vector)]
        )
    table.commit([a_remove(add, deletion_timestamp=2**60 + add.size) for add in adds[5:12]])
    table.commit([a_remove(add, deletion_timestamp=2**60) for add in adds[12:15]])
    table.commit([an_add("u")])
    table.wait_mirrored()
    return table


def spooled(source: CheckpointSource, store, group_rows: int, pieces=lambda rows: rows) -> bytes:
    snapshot = source.snapshot
    shape = CheckpointShape(snapshot.metadata, snapshot.protocol)
    written = WrittenRows(group_rows)
    rows = pieces(checkpoint_rows(source, shape, written))
    writer = CheckpointWriter(store, group_rows=group_rows)
    with writer.spool(snapshot.version, shape.schema, rows) as (file, path):
        require_written(file, path, source, written)
        require_equal(file, path, source)
        return path.read_bytes()


def one_by_one(tables):
    for table in tables:
        for number in range(table.num_rows):
            yield table.slice(number, 1)


@pytest.mark.parametrize("version", [1, 3, 4, 6])
@pytest.mark.parametrize("group_rows", [1, 3, 7, 22, 1000])
def test_bytes_do_not_depend_on_the_pieces_that_rows_come_in(
    catalog, tmp_path, version, group_rows
):
    table = a_history(catalog, tmp_path)
    store = inspect(catalog).connection.store_of(inspect(catalog).metastore.table("orders"))
    source = source_of(catalog, table, version)
    whole = spooled(source, store, group_rows)
    assert spooled(source, store, group_rows, one_by_one) == whole
    found = pq.read_table(pa.BufferReader(whole))
    assert found.num_rows > 20
    footer = pq.read_metadata(pa.BufferReader(whole))
    assert footer.num_row_groups == -(-found.num_rows // group_rows)


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
def test_every_version_gives_its_files_in_the_order_in_which_they_came(catalog, tmp_path, version):
    table = a_history(catalog, tmp_path)
    names = ("added_version", "path", "dv_id", "size")
    files = table.snapshot(version=version).files(list(names)).to_pylist()
    with source_of(catalog, table, version).read() as read:
        found = [row for b in read.adds(names) for row in b.to_pylist()]
    # each commit of this history adds its files in the order of their paths
    assert found == sorted(files, key=lambda file: (file["added_version"], file["path"]))


@pytest.mark.parametrize("taken", [0, 1])
def test_a_file_that_is_removed_while_the_files_are_read_appears_once(catalog, tmp_path, taken):
    table = a_table(catalog, tmp_path)
    adds = [an_add(f"f{number:05d}") for number in range(MANY)]
    table.commit(adds)
    with source_of(catalog, table, 1).read() as read:
        batches = read.adds()
        found = paths_of(next(batches) for _ in range(taken))
        table.commit([a_remove(adds[0]), a_remove(adds[-1]), an_add("f00000a")])
        found += paths_of(batches)
        assert paths_of(read.removes()) == []
    assert found == [add.path for add in adds]
    # and those that come later see where the files are now
    with source_of(catalog, table, 1).read() as read:
        assert paths_of(read.adds()) == found
    with source_of(catalog, table, 2).read() as read:
        assert paths_of(read.adds()) == [*found[1:-1], "f00000a"]


def test_a_version_that_was_forgotten_meanwhile_is_not_read(catalog, tmp_path):
    table = a_history(catalog, tmp_path)
    source = source_of(catalog, table, 3)
    book = inspect(catalog).metastore
    with book.database.write() as tx:
        tx.execute("raise_history_floor", table_id=table.table_id, floor=4)
    snapshot = source.snapshot
    shape = CheckpointShape(snapshot.metadata, snapshot.protocol)
    with pytest.raises(VersionNotFoundError, match="forgotten while it was read"):
        list(checkpoint_rows(source, shape, WrittenRows(10)))
    with source_of(catalog, table, 4).read() as read:
        assert len(paths_of(read.adds())) == 13


def test_rows_that_nobody_wants_any_more_leave_no_thread_and_no_open_read(catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    table.commit([an_add(f"f{number:05d}") for number in range(MANY)])
    source = source_of(catalog, table, 1)
    shape = CheckpointShape(source.snapshot.metadata, source.snapshot.protocol)
    before = threading.active_count()
    for _ in range(3):
        rows = checkpoint_rows(source, shape, WrittenRows(100))
        next(rows), next(rows)
        rows.close()
    assert threading.active_count() == before
    with source.read() as read:
        assert len(paths_of(read.adds())) == MANY
    table.commit([an_add("next")])


def damaged(shape_rows, change):
    def shaped(self, files):
        return change(shape_rows(self, files))

    return shaped


def with_field(kind, name, value):
    """Set one field of the last row, which has a vector."""

    def change(table):
        rows = table.column(kind).to_pylist()
        rows[-1][name] = value
        at = table.schema.get_field_index(kind)
        return table.set_column(at, kind, pa.array(rows, table.schema.field(kind).type))

    return change


DAMAGE = {
    "another path": ("add", with_field("add", "path", "x"), "other rows of add"),
    "no path": ("add", with_field("add", "path", None), "other rows of add"),
    "another size": ("add", with_field("add", "size", 7), "other rows of add"),
    "no vector": ("add", with_field("add", "deletionVector", None), "other rows of add"),
    "a row less": ("add", lambda table: table.slice(1), "fewer rows of add"),
    "a row twice": ("add", lambda t: pa.concat_tables([t.slice(0, 1), t]), "more rows of add"),
    "another order": (
        "add",
        lambda t: t.take(
            pc.sort_indices(t["add"].combine_chunks().field("path"), sort_keys=[("", "descending")])
        ),
        "other rows of add",
    ),
    "another time": (
        "remove",
        with_field("remove", "deletionTimestamp", 1),
        "other rows of remove",
    ),
    "no time": ("remove", with_field("remove", "deletionTimestamp", None), "other rows of remove"),
    "no tombstones": ("remove", lambda table: table.slice(0, 0), "fewer rows of remove"),
}


@pytest.mark.parametrize("what", list(DAMAGE))
def test_a_checkpoint_that_was_shaped_wrong_never_reaches_the_log(
    catalog, tmp_path, monkeypatch, what
):
    table = a_history(catalog, tmp_path)
    kind, change, told = DAMAGE[what]
    name = f"{kind}s"
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointShape, name, damaged(getattr(CheckpointShape, name), change))
        with pytest.raises(CheckpointError, match=told):
            catalog.mirror.checkpoint("orders", 4)
    log = Path(table.location.removeprefix("file://"))
    assert not (log / checkpoint_path(4)).exists()
    assert not (log / LAST_CHECKPOINT).exists()
    catalog.mirror.checkpoint("orders", 4)
    assert catalog.mirror.verify("orders") == []


def test_a_spool_whose_bytes_changed_is_found(catalog, tmp_path):
    table = a_history(catalog, tmp_path)
    source = source_of(catalog, table, 4)
    shape = CheckpointShape(source.snapshot.metadata, source.snapshot.protocol)
    store = inspect(catalog).connection.store_of(inspect(catalog).metastore.table("orders"))
    written = WrittenRows(10)
    rows = checkpoint_rows(source, shape, written)
    with CheckpointWriter(store, group_rows=10).spool(4, shape.schema, rows) as (file, path):
        require_written(file, path, source, written)
        good = path.read_bytes()
        places = [part.start() for part in _pages(path, good)]
        assert len(places) > 10
        for place in places:
            path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
            with pytest.raises(CheckpointError):
                require_written(file, path, source, written)


def _pages(path: Path, data: bytes):
    """Return where the data pages of the paths and sizes of adds end: inside their values."""
    import re

    footer = pq.read_metadata(path)
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for place in range(group.num_columns):
            column = group.column(place)
            if column.path_in_schema in {
                "add.path",
                "add.size",
                "add.stats",
                "add.modificationTime",
            }:
                end = column.data_page_offset + column.total_compressed_size - 1
                yield re.compile(b"(?s).").match(data, end)


def test_another_head_is_found(catalog, tmp_path):
    table = a_history(catalog, tmp_path)
    source = source_of(catalog, table, 4)
    shape = CheckpointShape(source.snapshot.metadata, source.snapshot.protocol)
    store = inspect(catalog).connection.store_of(inspect(catalog).metastore.table("orders"))
    written = WrittenRows(1000)
    head, *rest = checkpoint_rows(source, shape, written)
    swapped = pa.concat_tables([head.slice(1), head.slice(0, 1)])
    with CheckpointWriter(store).spool(4, shape.schema, [swapped, *rest]) as (file, path):
        for judge in (
            lambda: require_written(file, path, source, written),
            lambda: require_equal(file, path, source),
        ):
            with pytest.raises(CheckpointError, match="another protocol, metadata"):
                judge()
