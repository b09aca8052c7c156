"""Options of a write: both spellings, nothing unknown, no contradictions."""

import pytest

from deltasql.errors import BadArgumentError
from deltasql.spark.write.write_options import WriteOptions, parse_options


def test_both_spellings_say_the_same():
    delta = {
        "mergeSchema": "true",
        "REPLACEWHERE": "day = 'a'",
        "txnAppId": "job",
        "txnVersion": "7",
        "userMetadata": "why",
        "maxRecordsPerFile": "100",
        "dataChange": "false",
    }
    named = {
        "merge_schema": True,
        "replace_where": "day = 'a'",
        "txn_app_id": "job",
        "txn_version": 7,
        "user_metadata": "why",
        "max_records_per_file": 100,
        "data_change": False,
    }
    told = parse_options("overwrite", delta)
    assert (
        told == parse_options("overwrite", None, named) == parse_options("OVERWRITE", delta, named)
    )
    assert (told.txn, told.schema_mode) == (("job", 7), "merge")


def test_nothing_said_is_a_plain_append():
    assert parse_options("append") == WriteOptions()
    assert parse_options("append", {}, {"location": None}) == WriteOptions()


@pytest.mark.parametrize(
    ("mode", "options", "told"),
    [
        ("upsert", {}, "no mode 'upsert'"),
        ("append", {"mergeShema": "true"}, "no option 'mergeShema'"),
        ("append", {"mergeSchema": "yes"}, "true or false"),
        ("append", {"maxRecordsPerFile": "many"}, "whole number"),
        ("append", {"maxRecordsPerFile": True}, "whole number"),
        ("append", {"compression": "lzo"}, "cannot be 'lzo'"),
        ("append", {"txnAppId": "job"}, "go together"),
        ("append", {"replaceWhere": "a = 1"}, "mode overwrite only"),
        ("append", {"overwriteSchema": True}, "mode overwrite only"),
        ("overwrite", {"replaceWhere": "a = 1", "partitionOverwriteMode": "dynamic"}, "both say"),
        ("overwrite", {"replaceWhere": "a = 1", "overwriteSchema": "true"}, "all rows"),
        ("append", {"merge_schema": True, "mergeSchema": False}, "twice"),
    ],
)
def test_what_is_refused(mode, options, told):
    with pytest.raises(BadArgumentError, match=told):
        parse_options(mode, options)


def test_a_near_miss_is_told():
    with pytest.raises(BadArgumentError) as caught:
        parse_options("append", {"mergeShema": "true"})
    assert caught.value.advice == "Did you mean mergeSchema?"
