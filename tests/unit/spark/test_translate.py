"""Paths and vectors of a table, as a staged log spells them and back."""

import msgspec
import pytest

from builders import a_remove, an_add
from deltasql.errors import InvalidCommitError, UnsupportedFeatureError
from deltasql.protocol.actions import Cdc, DeletionVector, Txn, path_key
from deltasql.spark.transactions.path_translation import (
    StagedPlace,
    Translation,
    keys_of,
    staged_path,
)

PLACE = StagedPlace("orders", "file:/lake/a%20b", "tx-1")
CODE = "ab^-aqEH.-t@S}K{vb[*k^"
NAME = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


def a_vector(kind="u", text=CODE, **changes) -> DeletionVector:
    values = {"storage_type": kind, "path_or_inline_dv": text, "offset": 4}
    return DeletionVector(size_in_bytes=40, cardinality=6, **{**values, **changes})


def test_live_files_become_absolute_and_come_back_verbatim():
    given = [
        an_add("day=a%20b/x.parquet"),
        an_add("file:///other/y.parquet"),
        an_add("/other/z.parquet", deletion_vector=a_vector()),
    ]
    translation = Translation.of(given, PLACE)
    staged = translation.staged_adds()
    assert [add.path for add in staged] == [
        "file:/lake/a%20b/day=a%20b/x.parquet",
        "file:/other/y.parquet",
        "file:/other/z.parquet",
    ]
    assert not any(add.data_change for add in staged)
    vector = staged[2].deletion_vector
    assert (vector.storage_type, vector.offset) == ("p", 4)
    assert vector.path_or_inline_dv == f"file:/lake/a%20b/ab/{NAME}"
    back = [translation.back(a_remove(add, partition_values={}), 5) for add in staged]
    assert [(one.path, one.deletion_vector, one.partition_values) for one in back] == [
        (add.path, add.deletion_vector, add.partition_values) for add in given
    ]


def test_new_files_lie_in_the_staged_folder():
    translation = Translation.of([], PLACE)
    new = an_add("day=a%2520/x.parquet", deletion_vector=a_vector())
    back = translation.back(new, 5)
    assert back.path == "tx-1/day=a%2520/x.parquet"
    assert back.deletion_vector.path_or_inline_dv == f"tx-1/{CODE}"
    bare = msgspec.structs.replace(new, deletion_vector=a_vector(text=CODE[2:]))
    assert translation.back(bare, 5).deletion_vector.path_or_inline_dv == f"tx-1{CODE[2:]}"
    change = Cdc(path="_change_data/c.parquet", partition_values={}, size=1, data_change=False)
    assert translation.back(change, 5).path == "tx-1/_change_data/c.parquet"


def test_inline_vectors_stay_and_other_actions_too():
    inline = an_add("x.parquet", deletion_vector=a_vector("i", "wi5b=000010000siXQKl0rr91000"))
    translation = Translation.of([inline], PLACE)
    assert translation.staged_adds()[0].deletion_vector == inline.deletion_vector
    txn = Txn(app_id="a", version=1)
    assert translation.back(txn, 5) is txn


def test_commit_versions_are_the_tables_own():
    add = an_add("x.parquet", default_row_commit_version=1)
    assert Translation.of([], PLACE).back(add, 57).default_row_commit_version == 57


@pytest.mark.parametrize("path", ["file:/lake/a%20b/gone.parquet", "/x", "s3://bucket/x"])
def test_a_path_that_the_table_does_not_have_is_refused(path):
    translation = Translation.of([an_add("x.parquet")], PLACE)
    with pytest.raises(InvalidCommitError, match="does not have"):
        translation.back(a_remove(an_add(path)), 5)


def test_a_vector_that_the_table_does_not_have_is_refused():
    translation = Translation.of([an_add("x.parquet")], PLACE)
    staged = translation.staged_adds()[0]
    strange = a_vector("p", "file:/lake/a%20b/deletion_vector_x.bin")
    with pytest.raises(InvalidCommitError, match="vector"):
        translation.back(msgspec.structs.replace(staged, deletion_vector=strange), 5)


def test_files_of_other_stores_are_refused():
    with pytest.raises(UnsupportedFeatureError, match="s3://bucket/x"):
        Translation.of([an_add("s3://bucket/x")], PLACE)


@pytest.mark.parametrize(
    ("path", "staged"),
    [
        ("day=a%20b/x", "day=a%20b/x"),
        ("day=%C3%A9%252F/x", "day=é%252F/x"),
        ("day=é/x", "day=é/x"),
        ("day=%F0%9F%98%80/x", "day=😀/x"),
        ("day=a%C2%A0b%C3%A9/x", "day=a%C2%A0bé/x"),
        ("day=%C2%85/x", "day=%C2%85/x"),
        ("day=%c3%a9/x", "day=%c3%a9/x"),
        ("day=é%C3%A9/x", "day=é%C3%A9/x"),
        ("day=%FF/x", "day=%FF/x"),
    ],
)
def test_letters_are_spelled_as_hadoop_does_and_found_again(path, staged):
    assert staged_path(path, PLACE) == f"{PLACE.root}/{staged}"
    assert path in keys_of(f"{PLACE.root}/{staged}", PLACE)
    assert path_key(f"/x/{path}") in keys_of(staged_path(f"file:///x/{path}", PLACE), PLACE)


def test_a_file_with_two_paths_is_refused():
    adds = [an_add(path) for path in ("day=é/x", "day=%C3%A9/x")]
    with pytest.raises(UnsupportedFeatureError, match="names one file twice"):
        Translation.of(adds, PLACE)
