"""The foreign logs of the benchmarks are the same each time, and of the sizes that they promise."""

import json

import pytest
from bench import logs

COMMITS = 40


@pytest.mark.parametrize("kind", logs.EACH)
def test_a_log_has_the_same_lines_each_time(kind):
    assert list(logs.history(kind, COMMITS)) == list(logs.history(kind, COMMITS))


@pytest.mark.parametrize("kind", logs.EACH)
def test_seven_of_ten_actions_add_and_each_remove_ends_a_file_once(kind):
    live: set[str] = set()
    adds = removes = 0
    for version, lines in enumerate(logs.history(kind, COMMITS)):
        actions = [json.loads(line) for line in lines]
        assert "commitInfo" in actions[0]
        if not version:
            assert [*actions[1], *actions[2]] == ["protocol", "metaData"]
            continue
        assert len(actions) == logs.EACH[kind] + 1
        added = {one["add"]["path"] for one in actions if "add" in one}
        removed = [one["remove"]["path"] for one in actions if "remove" in one]
        assert live.issuperset(removed)
        assert not added & live
        live = (live - set(removed)) | added
        adds, removes = adds + len(added), removes + len(removed)
    assert len(live) == adds - removes
    assert 0.6 < adds / (adds + removes) < 0.75
