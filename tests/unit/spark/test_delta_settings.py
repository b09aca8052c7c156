"""How Delta Spark comes into a session."""

import pytest

from deltasql.errors import MissingExtraError
from deltasql.spark.session.delta_jar import PACKAGE, delta_settings


def test_without_delta_nothing_is_set():
    assert delta_settings(delta=False) == {}


def test_by_its_name():
    assert delta_settings(delta=True)["spark.jars.packages"] == PACKAGE


def test_from_a_directory(tmp_path):
    names = ["delta-spark_4.2_2.13-4.4.0.jar", "delta-storage-4.4.0.jar"]
    for name in [*names, "other.jar"]:
        (tmp_path / name).touch()

    found = delta_settings(delta=tmp_path)

    assert found["spark.jars"] == ",".join(str(tmp_path / name) for name in names)
    assert "spark.jars.packages" not in found
    assert delta_settings(delta=str(tmp_path)) == found


def test_a_directory_without_them_is_refused(tmp_path):
    (tmp_path / "delta-storage-4.4.0.jar").touch()

    with pytest.raises(MissingExtraError, match="no jars of Delta Spark") as told:
        delta_settings(delta=tmp_path)

    assert "delta-spark_*.jar" in told.value.advice
