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


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Run the program in this process, as fast as a function; returns stdout and stderr."""
    from deltasql.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for key in [key for key in os.environ if key.startswith("DELTASQL_")]:
        monkeypatch.delenv(key)

    def run(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["deltasql", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        told = capsys.readouterr()
        assert "Traceback" not in told.err, told.err
        assert left.value.code == code, told.out + told.err
        return subprocess.CompletedProcess(arguments, code, told.out, told.err)

    return run
