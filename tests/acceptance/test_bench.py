"""The benchmarks of mirror and import run, in quick sizes: every figure is there, nothing broke.

Whether a bar holds is not asked: that is a matter of a quiet machine and of the full sizes.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from builders import some

ROOT = Path(__file__).parents[2]
CASES = [
    "drain",
    *(
        pytest.param(name, marks=pytest.mark.soak)
        for name in (
            "checkpoint-10k",
            "full-load",
            "lag",
            "import-commits",
            "outage",
            "scale-10m",
            "spark-append",
            "spark-merge",
            "verify-200",
        )
    ),
]


@pytest.fixture(scope="module")
def home():
    """A folder that the server's user may enter, which pytest's own is not."""
    with tempfile.TemporaryDirectory(prefix="deltasql-bench-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.verify
@pytest.mark.parametrize("case", CASES)
def test_a_quick_run_measures_every_contender(case, home, tmp_path):
    options = ["--quick", "--only", case, "--home", home, "--docs", tmp_path]
    done = subprocess.run(
        [sys.executable, "-m", "bench.run", *map(str, options)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stderr
    told = json.loads((tmp_path / "benchmarks.json").read_text(encoding="utf-8"))
    assert told["cases"], done.stdout + done.stderr
    found = told["cases"][0]
    has_postgres = told["machine"]["postgresql"] is not None
    for row in some(found["rows"]):
        if has_postgres or "PostgreSQL" not in row["label"]:
            assert row["value"], (row["label"], row["note"])
            assert row["rss_mb"]
    differing = [bar for bar in found["bars"] if "other bytes" in bar["text"]]
    assert [bar["measured"] for bar in differing] == [0] * (2 if case.startswith("check") else 0)
    page = (tmp_path / "benchmarks.md").read_text(encoding="utf-8") + json.dumps(told)
    assert not [name for name in (str(home), str(ROOT), "127.0.0.1") if name in page]
    if case == "lag":
        assert (tmp_path / "benchmarks-lag.svg").exists()
