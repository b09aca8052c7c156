"""What others left in a log stays, is known, and is watched once SQL has taken the log over."""

import pyarrow as pa
import pytest

from builders import some
from deltasql.imports.cutover import cut_over
from deltasql.imports.job import TableImport
from deltasql.mirror.compare import Difference
from deltasql.protocol.log_names import (
    LAST_CHECKPOINT,
    LAST_CHECKPOINT_CHECKSUM,
    checkpoint_path,
    commit_key,
)
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants

pytestmark = pytest.mark.req("R82", "R102")

STRANGERS = {
    "_delta_log/00000000000000000004.crc": b'{"numFiles":5}',
    "_delta_log/00000000000000000001.00000000000000000003.compacted.json": b"{}\n",
    "_delta_log/_sidecars/part-1.parquet": b"PAR1",
    "_delta_log/notes.txt": b"do not touch",
}
CHECKPOINT = checkpoint_path(5)


class StopError(BaseException):
    """The process ends here."""


@pytest.fixture
def source(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    place = tmp_path / "t"
    for number in range(6):
        deltalake.write_deltalake(str(place), pa.table({"id": [number]}), mode="append")
    deltalake.DeltaTable(str(place)).create_checkpoint()
    deltalake.write_deltalake(str(place), pa.table({"id": [9]}), mode="append")
    for key, payload in STRANGERS.items():
        (place / key).parent.mkdir(parents=True, exist_ok=True)
        (place / key).write_bytes(payload)
    return place


def bytes_of(place):
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in sorted((place / "_delta_log").rglob("*"))
        if path.is_file()
    }


def taken_over(catalog, source):
    TableImport(catalog._lazy.create().connection, str(source), "t").run()
    cut_over(inspect(catalog).connection, "t")
    return catalog.table("t")


def found(catalog):
    return [(one.difference, one.key) for one in catalog.mirror.verify("t")]


def test_a_log_that_was_taken_over_verifies_and_nothing_in_it_has_changed(catalog, source):
    before = bytes_of(source)
    table = taken_over(catalog, source)
    table.append(pa.table({"id": [10]}))
    table.wait_mirrored(timeout=30)
    assert found(catalog) == []
    after = bytes_of(source)
    assert {key: after[key] for key in before} == before
    check_invariants(catalog, "t")


def test_our_own_checkpoint_takes_the_hint_over(catalog, source):
    table = taken_over(catalog, source)
    version = table.append(pa.table({"id": [10]}))
    table.wait_mirrored(timeout=30)
    catalog.mirror.checkpoint("t", version)
    assert f'"version":{version}'.encode() in (source / LAST_CHECKPOINT).read_bytes()
    assert found(catalog) == []
    check_invariants(catalog, "t")


@pytest.mark.parametrize("key", [CHECKPOINT, *STRANGERS])
def test_damage_to_what_was_inherited_is_found_and_repaired(catalog, source, key):
    taken_over(catalog, source)
    payload = bytearray((source / key).read_bytes())
    payload[len(payload) // 2] ^= 1
    (source / key).write_bytes(payload)
    assert found(catalog) == [(Difference.CHANGED_FILE, key)]
    assert all(one.done for one in some(catalog.mirror.repair("t")))
    assert found(catalog) == []
    # a checkpoint comes back from SQL; what only its writer could write is put aside
    assert (source / key).exists() == (key == CHECKPOINT)
    saved = [p.read_bytes() for p in (source / "_delta_log/_deltasql_saved").rglob("*.*")]
    assert bytes(payload) in saved
    deltalake = pytest.importorskip("deltalake")
    assert deltalake.DeltaTable(str(source), version=5).version() == 5


@pytest.mark.parametrize("key", [CHECKPOINT, *STRANGERS])
def test_what_is_gone_is_told_and_let_go(catalog, source, key):
    taken_over(catalog, source)
    (source / key).unlink()
    assert found(catalog) == [(Difference.MISSING_FILE, key)]
    assert all(one.done for one in some(catalog.mirror.repair("t")))
    assert found(catalog) == []
    assert (source / key).exists() == (key == CHECKPOINT)


def test_what_comes_after_the_cut_over_is_a_stranger(catalog, source):
    taken_over(catalog, source)
    (source / "_delta_log/later.txt").touch()
    assert found(catalog) == [(Difference.FOREIGN_FILE, "_delta_log/later.txt")]


def test_a_crash_while_noting_leaves_a_cut_over_that_can_be_done_again(catalog, source):
    TableImport(catalog._lazy.create().connection, str(source), "t").run()

    def stop(name):
        if name == "before-inherited":
            raise StopError

    with hooked(stop), pytest.raises(StopError):
        cut_over(inspect(catalog).connection, "t")
    assert cut_over(inspect(catalog).connection, "t").version == 7
    assert found(catalog) == []


def test_a_crash_while_putting_aside_loses_nothing(catalog, source):
    taken_over(catalog, source)
    key = "_delta_log/notes.txt"
    (source / key).write_bytes(b"changed")

    def stop(name):
        if name == "inherited-put-aside":
            raise StopError

    with hooked(stop), pytest.raises(StopError):
        catalog.mirror.repair("t")
    catalog.mirror.repair("t")
    assert found(catalog) == []
    saved = [p.read_bytes() for p in (source / "_delta_log/_deltasql_saved").iterdir()]
    assert b"changed" in saved


@pytest.mark.parametrize("is_commit_gone", [True, False])
def test_a_log_whose_beginning_is_gone_verifies_too(catalog, source, is_commit_gone):
    """The commit of the checkpoint itself may be gone: SQL asks for no bytes it never had."""
    for version in range(6 if is_commit_gone else 5):
        (source / commit_key(version)).unlink()
    table = taken_over(catalog, source)
    assert inspect(catalog).metastore.table("t").first_version == 5
    assert found(catalog) == []
    table.append(pa.table({"id": [10]}))
    table.wait_mirrored(timeout=30)
    assert found(catalog) == []
    assert not is_commit_gone or not (source / commit_key(5)).exists()
    check_invariants(catalog, "t")
    deltalake = pytest.importorskip("deltalake")
    assert deltalake.DeltaTable(str(source)).to_pyarrow_table().num_rows == 8


def test_hadoops_checksum_of_the_hint_comes_and_goes_with_the_hint(catalog, source):
    (source / LAST_CHECKPOINT_CHECKSUM).write_bytes(b"crc\x00")
    table = taken_over(catalog, source)
    assert found(catalog) == []
    table.append(pa.table({"id": [10]}))
    assert catalog.mirror.checkpoint("t") is not None
    assert not (source / LAST_CHECKPOINT_CHECKSUM).exists()
    assert found(catalog) == []


@pytest.mark.parametrize("key", ["_delta_log/notes.txt", "_delta_log/00000000000000000004.crc"])
def test_repair_does_with_a_file_of_others_what_verify_promises(catalog, source, key):
    taken_over(catalog, source)
    (source / key).unlink()
    (finding,) = catalog.mirror.verify("t")
    assert "forgets it" in finding.action
    (done,) = catalog.mirror.repair("t")
    assert (done.done, (source / key).exists()) == (True, False)
    assert found(catalog) == []


def test_a_commit_that_another_writer_is_about_to_put_is_not_inherited(catalog, source):
    """delta-rs writes `<commit>.json#1` first; by the next verify it is gone."""
    staged = source / f"{commit_key(7)}#1"
    staged.write_bytes(b"half a com")
    taken_over(catalog, source)
    staged.unlink()
    assert catalog.mirror.verify("t") == []
