"""Crash points kill where and when they are told, and never otherwise."""

import os
import signal
import subprocess
import sys

import pytest

from deltasql.crash import crash_point, hook_from_env, install
from deltasql.errors import ConfigError
from deltasql.testing import crash_points as testing_crash
from deltasql.testing.crash_points import declared_points, hooked, traced_points

SCRIPT = """
from deltasql.crash import crash_point
for _ in range(3):
    crash_point("a"); crash_point("b")
print("lived")
"""


def run(script=SCRIPT, **env):
    return subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **env}, capture_output=True, check=False
    )


@pytest.fixture(autouse=True)
def _no_hook():
    previous = install(None)
    yield
    install(previous)


def test_without_a_hook_a_point_does_nothing():
    assert crash_point("anything") is None


def test_a_hook_sees_each_point_inside_its_block_only():
    seen: list[str] = []
    with hooked(seen.append):
        crash_point("a")
        crash_point("b")
    crash_point("c")
    assert seen == ["a", "b"]


@pytest.mark.req("R40")
@pytest.mark.parametrize(("at", "trace"), [("b", ["a", "b"]), ("a:3", ["a", "b", "a", "b", "a"])])
def test_the_process_dies_at_the_named_passage(tmp_path, at, trace):
    file = tmp_path / "trace"
    env = {"DELTASQL_CRASH_AT": at, "DELTASQL_CRASH_TRACE": str(file), "DELTASQL_TESTING": "1"}
    died = run(**env)
    assert died.returncode == -signal.SIGKILL
    assert list(traced_points(file)) == trace


def test_the_environment_is_ignored_without_the_testing_switch(tmp_path):
    lived = run(DELTASQL_CRASH_AT="a", DELTASQL_TESTING="0")
    assert (lived.returncode, lived.stdout) == (0, b"lived\n")
    enabled = "from deltasql.testing.crash_points import enable; enable()\n" + SCRIPT
    assert run(enabled, DELTASQL_CRASH_AT="a", DELTASQL_TESTING="0").returncode == -signal.SIGKILL


def test_a_bad_passage_is_refused():
    with pytest.raises(ConfigError, match="DELTASQL_CRASH_AT"):
        hook_from_env({"DELTASQL_CRASH_AT": "a:0"})
    assert hook_from_env({}) is None


def test_enable_with_an_empty_environment_removes_the_hook():
    install(lambda _: pytest.fail("the hook is still there"))
    testing_crash.enable({})
    crash_point("a")


def test_declared_points_are_sorted_and_unique():
    points = declared_points()
    assert list(points) == sorted(set(points))
