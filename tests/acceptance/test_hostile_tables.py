"""Hostile tables, continued: nothing is lost with a feature, a neighbour, a link or a name."""

import shutil

import pytest

import deltasql
from builders import SCHEMA, a_table, an_add, ids, paths, rows
from deltasql.errors import DeltaSqlError, MirrorLagError, UnsafePathError
from deltasql.protocol.actions import DeletionVector, Protocol


@pytest.fixture
def catalog(tmp_path):
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/c.db") as opened:
        opened.create_if_missing()
        yield opened


def test_a_commit_cannot_drop_the_feature_that_live_files_need(catalog, tmp_path):
    """Otherwise the deleted rows of those files come back."""
    table = a_table(catalog, tmp_path, properties={"delta.enableDeletionVectors": "true"})
    vector = DeletionVector(
        storage_type="i",
        path_or_inline_dv="wi5b=000010000siXQKl0rr91000f55c8Xg0",
        size_in_bytes=40,
        cardinality=6,
    )
    table.commit([an_add("f", deletion_vector=vector)])
    with pytest.raises(DeltaSqlError):
        table.commit([Protocol(min_reader_version=1, min_writer_version=2)])


def test_purge_of_a_table_leaves_another_below_its_root_alone(catalog, tmp_path):
    outer = catalog.create_table("outer", location=str(tmp_path / "lake"), schema=SCHEMA)
    try:
        inner = catalog.create_table("inner", location=str(tmp_path / "lake/b"), schema=SCHEMA)
    except DeltaSqlError:
        return  # to refuse the place is right as well
    inner.append(rows(1))
    [path] = paths(inner)
    outer.commit([an_add(f"b/{path}", partition_values={})])
    catalog.drop("outer", purge=True)
    assert ids(inner) == [1]


def test_purge_passes_over_a_linked_folder_and_finishes(catalog, tmp_path):
    table = catalog.create_table("t", location=str(tmp_path / "t"), schema=SCHEMA)
    (tmp_path / "outside").mkdir()
    table.commit([an_add("linked/x.parquet", partition_values={})])
    (tmp_path / "t" / "linked").symlink_to(tmp_path / "outside")
    catalog.drop("t", purge=True)
    assert not list((tmp_path / "t" / "_delta_log").glob("*"))


def test_a_log_that_leads_elsewhere_is_told_in_the_mirror_status(catalog, tmp_path):
    table = catalog.create_table("t", location=str(tmp_path / "t"), schema=SCHEMA)
    table.alter(properties={"deltasql.mirror.mode": "worker"})
    table.wait_mirrored()
    table.commit([an_add("f", partition_values={})])
    shutil.rmtree(tmp_path / "t" / "_delta_log")
    (tmp_path / "outside").mkdir()
    (tmp_path / "t" / "_delta_log").symlink_to(tmp_path / "outside")
    with pytest.raises(UnsafePathError, match="outside"):
        table.commit([an_add("g", partition_values={})])
    assert table.version == 2
    with pytest.raises(MirrorLagError):
        table.wait_mirrored(timeout=0.2)
    assert "outside" in str(catalog.mirror.status("t")["error"])
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_name_with_a_leading_dot_is_refused_or_kept(catalog, tmp_path):
    try:
        table = catalog.create_table(".a", location=str(tmp_path / "t"), schema=SCHEMA)
    except DeltaSqlError:
        return
    assert table.name == ".a"
