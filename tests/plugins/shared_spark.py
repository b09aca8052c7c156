"""Which worker runs a test: one of them has the Spark that tests share.

A Spark that has run a kind of statement before runs it in a fifth of the time, so that two of
them are slower than one. Beside that, files stay whole by `--dist loadfile`, and every test is by
itself by `--dist loadgroup` (whose own groups are lost on the names that pytest 9.2 gives).
"""

import re
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# those that use the Spark of their process; and of them those that start processes with their own
_SHARED = re.compile(
    r"tests/(spark/|acceptance/test_delta_spark|contract/test_spark_import|"
    r"acceptance/test_round_trip.py::test_every_table_taken)"
)
_APART = re.compile(
    r"tests/spark/test_(cluster|connect|session\.py|spark_41|stream_kill|without_jar)"
)
# a cluster for all tests of the file
_WHOLE = "tests/faults/test_spark_import_faults.py"


class SharedSpark(LoadScopeScheduling):
    """Tests that share a Spark go to one worker, whatever becomes of the others."""

    def __init__(self, config: pytest.Config, log: Any, *, whole_files: bool) -> None:
        super().__init__(config, log)
        self._whole_files = whole_files

    def _split_scope(self, nodeid: str) -> str:
        if _SHARED.match(nodeid) and not _APART.match(nodeid):
            return "spark"
        file = nodeid.partition("::")[0]
        return file if self._whole_files or file == _WHOLE else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharedSpark | None:
    chosen = config.getvalue("dist")
    if chosen not in {"loadfile", "loadgroup"}:
        return None
    return SharedSpark(config, log, whole_files=chosen == "loadfile")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let no test that may take long begin last."""
    items.sort(key=_patience, reverse=True)


def _patience(item: pytest.Item) -> float:
    found = item.get_closest_marker("timeout")
    return float(found.args[0]) if found is not None else 0.0
