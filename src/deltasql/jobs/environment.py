"""What pyspark takes from the environment only, set while Spark starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from deltasql.jobs.java import find_java


def spark_environment(master: str) -> dict[str, str]:
    """Return the variables that a session with this master starts with.

    Raises:
        MissingExtraError: there is no Java.
    """
    own = {
        "JAVA_HOME": find_java(os.environ),
        # by itself it would take the python3 of the PATH, which may be another one
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
    }
    return own | {"SPARK_LOCAL_IP": "127.0.0.1"} if master.startswith("local") else own


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables for the time of a block."""
    before = {key: os.environ.get(key) for key in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value
