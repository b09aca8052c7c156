"""One reader for every mapping of options."""

from collections.abc import Mapping
from typing import Literal

import msgspec
import pytest

from deltasql.errors import BadArgumentError
from deltasql.options import camel, fold, read_options


class Kind(msgspec.Struct, kw_only=True, frozen=True):
    merge_schema: bool = False
    max_files: int | None = None
    replace_where: str | None = None
    codec: Literal["snappy", "zstd"] = "snappy"
    partition_by: tuple[str, ...] | None = None
    stores: Mapping[str, str] | None = None


def read(**given):
    return read_options(Kind, given, "A write")


def test_every_spelling_of_a_name_and_of_a_value():
    expected = Kind(merge_schema=True, max_files=7, codec="zstd", partition_by=("a",))
    assert read(mergeSchema="TRUE", MAXFILES="7", codec="ZSTD", partition_by="a") == expected
    assert read(merge_schema=True, max_files=7, codec="zstd", partitionBy=["a"]) == expected


def test_what_is_not_given_has_its_default():
    assert read() == read(merge_schema=None, replaceWhere=None) == Kind()


def test_the_same_value_twice_is_fine():
    assert read(mergeSchema="true", merge_schema=True).merge_schema


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mergeSchema": "yes"}, "mergeSchema is true or false, not 'yes'"),
        ({"mergeSchema": 1}, "mergeSchema is true or false, not 1"),
        ({"maxFiles": "1.5"}, "maxFiles is a whole number, not '1.5'"),
        ({"max_files": True}, "max_files is a whole number, not True"),
        ({"replaceWhere": ""}, "replaceWhere is a text, not ''"),
        ({"replaceWhere": 3}, "replaceWhere is a text, not 3"),
        ({"codec": "lzo"}, "codec cannot be 'lzo'"),
        ({"partitionBy": 3}, "partitionBy is a list of names, not 3"),
        ({"partitionBy": [3]}, "partitionBy is a list of names"),
        ({"stores": "x"}, "stores is a mapping, not 'x'"),
        ({"maxFiles": "1", "max_files": 2}, "given twice, with two values"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_name(given, said):
    with pytest.raises(BadArgumentError, match=said):
        read(**given)


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("mergeShema", "Did you mean mergeSchema?"),
        ("merge_shema", "Did you mean merge_schema?"),
        ("startingVersoin", "Did you mean startingVersion?"),
        ("colour", "Options are: mergeSchema, maxFiles, replaceWhere, codec, partitionBy, stores."),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(key, hint):
    with pytest.raises(BadArgumentError, match=f"A write has no option '{key}'") as error:
        read_options(Kind, {key: "1"}, "A write", also_known=("startingVersion",))
    assert error.value.advice == hint


def test_names_are_folded_and_spelled():
    assert fold("Merge_Schema") == fold("mergeSchema") == "mergeschema"
    assert camel("max_files_per_trigger") == "maxFilesPerTrigger"
