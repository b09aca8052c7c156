"""The program as users meet it: a process with exit code, stdout and stderr."""

import os
import subprocess
import sys

import pytest


@pytest.fixture
def run(tmp_path):
    """Run the program in an empty folder with a clean environment."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DELTASQL_", "PG"))}
    env |= {"HOME": str(tmp_path), "DELTASQL_URI": f"deltasql://sqlite/{tmp_path}/c.db"}

    def call(*arguments, code=0, **more):
        done = subprocess.run(
            [sys.executable, "-m", "deltasql", *arguments],
            cwd=tmp_path,
            env={**env, **more},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return call
