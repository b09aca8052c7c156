"""Table properties as typed values, with Delta's defaults."""

from datetime import timedelta

import pytest

from deltasql.errors import BadArgumentError
from deltasql.protocol.properties import (
    check,
    check_changes,
    read,
    read_bool,
    read_int,
    read_interval,
)

LOG = "delta.logRetentionDuration"
INTERVAL = "delta.checkpointInterval"


def test_defaults_are_those_of_delta():
    assert read({}, "delta.isolationLevel") == "Serializable"
    assert read_int({}, INTERVAL) == 10
    assert read_int({}, "delta.dataSkippingNumIndexedCols") == 32
    assert read_bool({}, "delta.appendOnly") is False
    assert read_bool({}, "deltasql.fence") is True
    assert read_interval({}, LOG) == timedelta(days=30)
    assert read_interval({}, "delta.deletedFileRetentionDuration") == timedelta(weeks=1)


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), (" TRUE ", True), ("True", True), ("false", False), ("yes", False)],
)
def test_true_is_true_in_any_case(text, value):
    assert read_bool({"delta.appendOnly": text}, "delta.appendOnly") is value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("interval 1 week", timedelta(weeks=1)),
        ("INTERVAL 2 Days 12 Hours", timedelta(days=2, hours=12)),
        ("7 days", timedelta(days=7)),
        ("interval 1 day", timedelta(days=1)),
        ("interval 90 minutes 30 seconds", timedelta(minutes=90, seconds=30)),
        ("interval 5 milliseconds 7 microseconds", timedelta(milliseconds=5, microseconds=7)),
        ("  interval   3   hours  ", timedelta(hours=3)),
        ("interval 0 days", timedelta()),
        ("interval -1 days", timedelta(days=-1)),
    ],
)
def test_intervals_are_read(text, value):
    assert read_interval({LOG: text}, LOG) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "interval",
        "1",
        "days",
        "interval 1 month",
        "interval 1 year",
        "interval 1.5 days",
        "interval 1 day and a half",
        "interval one day",
        "1day2",
        "interval 99999999999999 weeks",
        f"interval {'9' * 5000} days",
        "P1D",
    ],
)
def test_what_is_no_interval_is_refused_by_name(text):
    with pytest.raises(BadArgumentError, match=LOG):
        read_interval({LOG: text}, LOG)
    with pytest.raises(BadArgumentError, match=LOG):
        check({LOG: text})


@pytest.mark.parametrize("text", ["", "ten", "1.5", "9" * 5000])
def test_what_is_no_whole_number_is_refused_by_name(text):
    with pytest.raises(BadArgumentError, match=INTERVAL):
        read_int({INTERVAL: text}, INTERVAL)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delta.appendOnly", "perhaps"),
        ("deltasql.fence", ""),
        (INTERVAL, "0"),
        (INTERVAL, "-5"),
        ("delta.dataSkippingNumIndexedCols", "-2"),
        ("delta.isolationLevel", "WriteSerializable"),
        ("delta.logRetentionDuration", "soon"),
        ("anything", 5),
        ("anything", None),
    ],
)
def test_bad_values_are_refused_before_they_reach_a_table(key, value):
    with pytest.raises(BadArgumentError, match=key):
        check({key: value})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("delta.enableChangeDataFed", "delta.enableChangeDataFeed"),
        ("delta.appendonly", "delta.appendOnly"),
        ("delta.nobody.knows", "of your own"),
        ("delta.constraints.", ""),
        ("delta.minWriterVersion", "features"),
        ("deltasql.fance", "deltasql.fence"),
        ("deltasql.paused", "of your own"),
        ("deltasql.historyFloor", "of your own"),
    ],
)
def test_names_of_delta_and_deltasql_that_nobody_knows_are_refused(name, hint):
    with pytest.raises(BadArgumentError, match=f"property {name}") as refused:
        check({name: "true"})
    assert hint in refused.value.advice


def test_what_other_writers_have_set_stays_and_what_is_new_is_checked():
    check_changes({"delta.foreign": "1"}, {"delta.foreign": "1", "delta.appendOnly": "true"})
    with pytest.raises(BadArgumentError, match=r"delta\.foreign"):
        check_changes({"delta.foreign": "1"}, {"delta.foreign": "2"})


def test_good_and_unknown_properties_pass():
    check(
        {
            "delta.appendOnly": "TRUE",
            INTERVAL: "1",
            "delta.dataSkippingNumIndexedCols": "-1",
            "delta.isolationLevel": "Serializable",
            "my.own": "anything",
        }
    )
