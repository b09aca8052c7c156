"""Commits of other writers become rows of the catalog, or are refused by version and reason."""

import pytest

from commits import add, info, metadata
from deltasql.errors import MalformedActionError
from deltasql.imports.plan.commit_files import CommitFile
from deltasql.imports.read.parse import WindowReader
from deltasql.protocol.actions import Protocol
from deltasql.protocol.codec import serialize_actions

MOST = 2**63 - 1


def window_of(*actions):
    reader = WindowReader("memory://t")
    payload = serialize_actions([info(), *actions])
    reader.take(CommitFile(3, len(payload), 1_700_000_000_000), payload)
    return reader.window()


def test_sizes_that_add_up_to_more_than_a_database_counts_are_kept_one_by_one():
    found = window_of(add("a", size=MOST), add("b", size=MOST))
    assert found.adds["size"].to_pylist() == [MOST, MOST]
    assert found.versions["bytes_added"].to_pylist() == [MOST]


@pytest.mark.req("R73")
def test_a_mapped_column_without_its_physical_name_is_refused_with_the_version():
    mapped = metadata(configuration={"delta.columnMapping.mode": "name"})
    with pytest.raises(MalformedActionError, match=r"Version 3 .* lacks its physical name") as told:
        window_of(Protocol(min_reader_version=2, min_writer_version=5), mapped)
    assert told.value.context["version"] == 3
