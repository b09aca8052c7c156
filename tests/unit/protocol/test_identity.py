"""When two paths are one file."""

import pytest

from commits import add, remove, vector
from deltasql.protocol.actions import file_key, path_key


@pytest.mark.parametrize("path", ["/lake/t/f", "file:/lake/t/f", "file:///lake/t/f"])
def test_three_spellings_of_an_absolute_path_are_one(path):
    assert path_key(path) == "file:///lake/t/f"


@pytest.mark.parametrize(
    "path",
    [
        "f.parquet",
        "day=a/f.parquet",
        "day=a%20b/f",
        "day=a%2520b/f",
        "./f",
        "../f",
        "s3://bucket/f",
        "s3a://bucket/f",
        "abfss://c@a.dfs.core.windows.net/f",
        "FILE:///f",
        "file://host/f",
        "file:f",
        "//host/file:/f",
        "file:////f",
        "a/file:/f",
        "",
    ],
)
def test_every_other_path_stays_to_the_letter(path):
    assert path_key(path) == path


def test_spellings_of_the_percent_sign_are_different_files():
    assert path_key("a%2Fb") != path_key("a%2fb")
    assert path_key("é") != path_key("%C3%A9")


def test_the_key_of_a_key_is_itself():
    for path in ("/a", "file:/a", "file:///a", "a", "s3://b/a"):
        assert path_key(path_key(path)) == path_key(path)


def test_the_deletion_vector_is_part_of_the_identity():
    assert file_key(add("f")) == ("f", "") == file_key(remove("f"))
    one, other = (add("f", deletion_vector=vector(n)) for n in (1, 2))
    assert len({file_key(one), file_key(other), file_key(add("f"))}) == 3
    assert file_key(one) == file_key(remove("f", deletion_vector=vector(1)))
