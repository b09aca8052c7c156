"""Every promise of the page about guarantees names tests, and these exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/concepts/guarantees.md").read_text(encoding="utf-8")
SHOWN = {
    row[0]: re.findall(r"`(tests/[^`]+)`", row[1])
    for row in re.findall(r"^\| (.+?) \| (`tests/.+) \|$", PAGE, re.MULTILINE)
}
CONDITIONS = {
    "killed at any point",
    "a connection breaks",
    "a store answers late, wrongly or not at all",
    "several processes at once",
}


def test_every_promise_is_shown_by_a_test():
    numbered = set(re.findall(r"^\| (I\d) \|", PAGE, re.MULTILINE))
    assert numbered == {f"I{number}" for number in range(1, 8)}
    shown = {word for promise in SHOWN for word in promise.split(", ")} | set(SHOWN)
    assert numbered <= shown
    assert shown >= CONDITIONS


def test_every_limit_is_shown_by_a_test():
    limits = re.findall(r"^- \*\*(.+?)\.\*\*", PAGE, re.MULTILINE)
    assert limits
    assert {limit.lower() for limit in limits} <= {promise.lower() for promise in SHOWN}


def test_every_test_that_is_named_exists():
    for tests in SHOWN.values():
        assert tests
        for test in tests:
            file, _, function = test.partition("::")
            source = (ROOT / file).read_text(encoding="utf-8")
            assert f"def {function or 'test_'}" in source, test
