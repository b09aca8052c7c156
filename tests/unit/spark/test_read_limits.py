"""Limits of a batch, also where PySpark does not know of any."""

import importlib.util
import sys

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

from deltasql.spark.streaming import stream_reader
from deltasql.spark.streaming.batches import BatchLimit
from deltasql.spark.streaming.stream_options import FollowOptions


def test_everything_where_spark_wants_everything():
    assert stream_reader.room_of(FollowOptions(), ReadAllAvailable()) == BatchLimit()
    assert stream_reader.room_of(FollowOptions(), ReadMaxFiles(5)) == BatchLimit(1000)


def test_pyspark_4_1_has_no_limits_and_ours_are_kept(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    spec = importlib.util.spec_from_file_location("old_limits", stream_reader.__file__)
    old = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(old)
    assert not old.HAS_LIMITS
    assert old.room_of(FollowOptions(max_files=3)) == BatchLimit(3)
    assert isinstance(old.SupportsTriggerAvailableNow, type)
