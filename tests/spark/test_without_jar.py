"""A session without Delta's jar: all but its statements works, and those say how to get it."""

import pytest

import spark_no_jar
from deltasql.spark.session.delta_jar import PACKAGE


@pytest.mark.verify
@pytest.mark.usefixtures("needs_spark")
def test_all_but_statements(tmp_path):
    uri = f"deltasql://sqlite/{tmp_path}/catalog.db"
    told = spark_no_jar.run(uri, tmp_path / "orders")
    assert told["append"] == [[1, "a"], [2, "a"], [3, "b"]]
    assert told["replaceWhere"] == [[1, "a"], [2, "a"], [4, "b"]]
    assert told["dynamic"] == [[4, "b"], [5, "a"], [6, "a"], [7, "a"]]
    assert told["fewer files"]
    assert told["compact"] == told["dynamic"]
    assert told["delete"] == [[5, "a"], [6, "a"], [7, "a"]]
    assert told["restore"] == told["append"]
    assert told["overwrite"] == told["refused"] == [[8, "c"]]
    assert told["read"] == [8]
    for name in ("sql", "transaction"):
        code, message, advice = told[name]
        assert code == "DS102"
        assert "jar is not in this Spark session" in message
        assert PACKAGE in advice
