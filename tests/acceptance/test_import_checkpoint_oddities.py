"""Checkpoints that are damaged, doubled, cut or contradict the commits: what an import does."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasql.errors import LogGapError, MalformedActionError
from deltasql.imports.read import tasks
from deltasql.protocol.log_names import LogFileKind, commit_key
from histories import START, History
from oddities import HEAD, OddLog, checkpoint_name, warned
from plain_checkpoints import checkpoint_of, parquet_of

pytestmark = pytest.mark.req("R73", "R74", "R76")


@pytest.fixture
def odd(tmp_path):
    with OddLog(tmp_path) as found:
        yield found


def part(number, parts):
    return f"checkpoint.{number:010d}.{parts:010d}.parquet"


def halves(data):
    table = pq.read_table(io.BytesIO(data))
    middle = table.num_rows // 2
    return parquet_of(table.slice(0, middle)), parquet_of(table.slice(middle))


def test_an_incomplete_multi_part_checkpoint_is_passed_over(odd):
    first, _ = halves(checkpoint_of(odd.history, 6))
    odd.put(checkpoint_name(6, part(1, 2)), first)
    done = odd.bring()
    assert warned(done) == {"incomplete-checkpoint"}
    odd.require_equal(done)


def test_an_incomplete_multi_part_checkpoint_is_nothing_to_stand_on(odd):
    first, _ = halves(checkpoint_of(odd.history, 6))
    odd.put(checkpoint_name(6, part(1, 2)), first)
    odd.cut(7)
    with pytest.raises(LogGapError, match="begins at version 7 and has no usable checkpoint"):
        odd.bring()
    odd.require_nothing()


@pytest.mark.req("R74")
def test_a_part_without_files_has_none_and_one_without_rules_has_files(odd):
    """A part of a checkpoint has the columns of what it holds; all others are null."""
    table = pq.read_table(io.BytesIO(checkpoint_of(odd.history, 6)))
    rules, files = ["protocol", "metaData", "txn", "domainMetadata"], ["add", "remove"]
    for number, names in enumerate((rules, files), start=1):
        some = table.select(names)
        kept = [any(row.values()) for row in some.to_pylist()]
        odd.put(checkpoint_name(6, part(number, 2)), parquet_of(some.filter(pa.array(kept))))
    odd.cut(7)
    done = odd.bring()
    assert done.plan.base.kind is LogFileKind.MULTIPART
    odd.require_equal(done, first=6)


def both_kinds(odd, version):
    data = checkpoint_of(odd.history, version)
    odd.put(checkpoint_name(version), data)
    for number, half in enumerate(halves(data), start=1):
        odd.put(checkpoint_name(version, part(number, 2)), half)
    odd.cut(version + 1)


def test_of_two_checkpoints_of_one_version_the_one_with_more_parts_is_taken(odd):
    both_kinds(odd, 6)
    done = odd.bring()
    assert warned(done) == {"hint-missing", "several-checkpoints", "no-commit-file"}
    assert done.plan.base.kind is LogFileKind.MULTIPART
    odd.require_equal(done, first=6)


def test_of_two_checkpoints_the_sound_one_is_taken(odd):
    both_kinds(odd, 6)
    odd.put(checkpoint_name(6, part(2, 2)), b"PAR1 and no more")
    done = odd.bring()
    assert warned(done) >= {"corrupt-checkpoint", "several-checkpoints"}
    assert done.plan.base.kind is LogFileKind.CHECKPOINT
    odd.require_equal(done, first=6)


def test_a_corrupt_newest_checkpoint_gives_way_to_an_older_one(odd):
    odd.put(checkpoint_name(3), checkpoint_of(odd.history, 3))
    odd.put(checkpoint_name(8), checkpoint_of(odd.history, 8)[:-100])
    done = odd.bring(checkpoint_only=True)
    assert warned(done) >= {"corrupt-checkpoint"}
    odd.require_equal(done, first=3)


def test_a_corrupt_only_checkpoint_is_told_with_its_reason(odd):
    odd.put(checkpoint_name(8), b"PAR1" + bytes(100) + b"PAR1")
    odd.cut(9)
    with pytest.raises(LogGapError, match="the checkpoint of version 8 is corrupt: ") as refused:
        odd.bring()
    assert refused.value.context["recoverable"] == []
    odd.require_nothing()


def doubled(data, kind, change):
    rows = pq.read_table(io.BytesIO(data))
    again = next(row for row in rows.to_pylist() if row[kind] is not None)
    again[kind] |= change
    return parquet_of(pa.concat_tables([rows, pa.Table.from_pylist([again], schema=rows.schema)]))


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("add", {}),
        ("add", {"size": 999}),
        ("txn", {"version": 999}),
        ("metaData", {"id": "another"}),
        ("protocol", {"minWriterVersion": 5}),
    ],
)
def test_a_checkpoint_that_says_two_things_of_one_is_corrupt(odd, kind, change):
    odd.put(checkpoint_name(8), doubled(checkpoint_of(odd.history, 8), kind, change))
    odd.cut(9)
    with pytest.raises(LogGapError, match="the checkpoint of version 8 is corrupt: "):
        odd.bring()
    odd.require_nothing()


def test_a_corrupt_commit_beside_a_sound_checkpoint_is_told_as_a_commit(odd):
    odd.put(checkpoint_name(5), checkpoint_of(odd.history, 5))
    odd.cut(5)
    odd.put(commit_key(5), b'{"commitInfo":{}}\n{"add":')
    with pytest.raises(MalformedActionError, match="version 5, line 2 \\(from byte 18\\)"):
        odd.bring()
    odd.require_nothing()


@pytest.mark.req("R69", "R70")
@pytest.mark.parametrize("has_commit", [False, True])
def test_a_log_whose_beginning_is_gone_begins_at_its_checkpoint(odd, has_commit):
    odd.put(checkpoint_name(5), checkpoint_of(odd.history, 5))
    odd.cut(5 if has_commit else 6)
    done = odd.bring()
    assert warned(done) == {"hint-missing"} | (set() if has_commit else {"no-commit-file"})
    odd.require_equal(done, first=5)


def test_a_file_added_again_and_removed_behind_a_checkpoint_is_gone(odd, monkeypatch):
    """All of it in one window: the second add never meets the first in SQL's index."""
    monkeypatch.setattr(tasks, "TASK_VERSIONS", 2)
    add = json.dumps({"add": file_body("twice.parquet")}).encode()
    remove = b'{"remove":{"path":"twice.parquet","deletionTimestamp":1,"dataChange":true}}'
    for version, line in ((3, add), (6, add), (7, remove)):
        odd.history.commits[version] += line + b"\n"
    odd.rewrite()
    odd.require_equal(odd.bring())


def file_body(path):
    return {
        "path": path,
        "partitionValues": {"p": "a"},
        "size": 5,
        "modificationTime": START,
        "dataChange": True,
    }


# What is said in another way is not another thing.


def changed(data, **bodies):
    table = pq.read_table(io.BytesIO(data))
    rows = table.to_pylist()
    for row in rows:
        for kind, change in bodies.items():
            if row[kind] is not None:
                row[kind] |= change
    return parquet_of(pa.Table.from_pylist(rows, schema=table.schema))


@pytest.mark.req("R64")
def test_a_checkpoint_may_order_features_and_space_json_as_it_likes(odd):
    odd.history = History(7, versions=HEAD + 1)
    odd.rewrite()
    state = odd.history.states()[8]
    spaced = json.dumps(json.loads(state.metadata.schema_string), indent=1)
    turned = state.protocol.writer_features[::-1]
    data = changed(
        checkpoint_of(odd.history, 8),
        metaData={"schemaString": spaced},
        protocol={"writerFeatures": turned},
    )
    odd.put(checkpoint_name(8), data)
    odd.require_equal(odd.bring())


@pytest.mark.req("R64")
@pytest.mark.parametrize(
    ("kind", "change"),
    [("protocol", {"minWriterVersion": 3}), ("metaData", {"id": "another"})],
)
def test_a_checkpoint_that_contradicts_the_commits_is_told(odd, kind, change):
    odd.put(checkpoint_name(8), changed(checkpoint_of(odd.history, 8), **{kind: change}))
    done = odd.bring()
    assert [check.name for check in done.validation.failed] == [f"{kind} of the checkpoint"]
    assert done.row.properties["import_metadata"]["validation"] == "different"
