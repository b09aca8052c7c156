"""Logs that are not as they should be, imported: what Delta Spark reads is read, and it is told."""

import json
import os

import pytest

from deltasql.errors import LogGapError, MalformedActionError, UnsupportedFeatureError
from deltasql.imports.read import tasks
from deltasql.protocol.log_names import LOG_FOLDER, commit_key
from deltasql.testing import inspect
from histories import START
from log_mutations import HINT
from oddities import HEAD, OddLog, checkpoint_name, warned
from plain_checkpoints import checkpoint_of

pytestmark = pytest.mark.req("R73", "R76", "R79")
UUID = "80a083e8-7026-4e79-81be-64bd76c43a00"


@pytest.fixture
def odd(tmp_path):
    with OddLog(tmp_path) as found:
        yield found


# The hint, which no reader has to believe.


@pytest.mark.parametrize(
    ("hint", "code"),
    [
        (None, "hint-missing"),
        (b'{"version":2,"size":5}', "hint-stale"),
        (b"", "hint-corrupt"),
        (b"{\x00", "hint-corrupt"),
        (b'{"version":"eight"}', "hint-corrupt"),
        (b'{"version":5,"size":5}', "hint-dangling"),
        (b'{"version":8,"size":5,"parts":3}', "hint-dangling"),
        (b'{"version":4000,"size":5}', "hint-above-head"),
    ],
)
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_hint_that_lies_changes_nothing_and_is_told(odd, hint, code, is_cut):
    for version in (2, 8):
        odd.put(checkpoint_name(version), checkpoint_of(odd.history, version))
    if hint is not None:
        odd.put(HINT, hint)
    if is_cut:
        odd.cut(3)
    done = odd.bring()
    assert warned(done) >= {code}
    odd.require_equal(done, first=2 if is_cut else 0)


# Files beside the commits.


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (f"{HEAD + 1:020d}.json.bak", "stranger"),
        ("README.txt", "stranger"),
        (f"old/{HEAD + 1:020d}.json", "stranger"),
        (f"{2:020d}.{5:020d}.compacted.json", "compacted-files"),
        (f"{5:020d}.crc", "checksum-files"),
        (f".{5:020d}.json.crc", "hadoop-files"),
        (f"_staged_commits/{HEAD + 1:020d}.{UUID}.json", "staged-commits"),
        (f"_commits/{HEAD + 1:020d}.{UUID}.json", "staged-commits"),
        (f"{HEAD + 1}.json", "other-digits"),
        (f"{2**63:020d}.json", "version-too-large"),
    ],
)
def test_files_that_do_not_count_are_never_read_and_are_told(odd, name, code):
    odd.put(LOG_FOLDER + name, b"\xff{ not JSON")
    done = odd.bring()
    assert warned(done) == {code}
    odd.require_equal(done)


# Commits.


@pytest.mark.req("R75")
def test_a_missing_version_is_told_with_what_can_be_had(odd):
    odd.put(checkpoint_name(8), checkpoint_of(odd.history, 8))
    (odd.root / commit_key(5)).unlink()
    with pytest.raises(LogGapError, match="Version 5 is missing from the log at ") as refused:
        odd.bring()
    assert refused.value.context["recoverable"] == [(0, 4), (8, HEAD)]
    for advice in ("`up_to_version=4`", "`checkpoint_only=True` takes the checkpoint of version 8"):
        assert advice in refused.value.advice
    odd.require_nothing()
    odd.require_equal(odd.bring(checkpoint_only=True), first=8)


@pytest.mark.req("R75")
def test_a_missing_version_without_a_later_checkpoint_is_never_passed(odd):
    (odd.root / commit_key(5)).unlink()
    for options in ({}, {"lenient": True}, {"checkpoint_only": True}):
        with pytest.raises(LogGapError, match="Version 5 is missing"):
            odd.bring(**options)
    odd.require_nothing()
    assert odd.bring(up_to_version=4).row.current_version == 4


def test_a_corrupt_commit_is_told_by_place_and_what_came_before_is_kept(odd, monkeypatch):
    monkeypatch.setattr(tasks, "TASK_VERSIONS", 3)
    sound = odd.read(7)
    odd.put(commit_key(7), sound + b'{"add":{"path":7}}\n')
    line, byte = sound.count(b"\n") + 1, len(sound)
    said = rf"version 7, line {line} \(from byte {byte}\): .*path"
    with pytest.raises(MalformedActionError, match=said) as refused:
        odd.bring()
    assert (refused.value.context["version"], refused.value.context["line"]) == (7, line)
    assert odd.catalog.tables() == []
    assert [one.version for one in odd.catalog.unfinished_imports()] == [5]
    odd.put(commit_key(7), sound)
    odd.require_equal(odd.bring(resume=True))


def test_a_byte_order_mark_is_refused_as_every_reader_does(odd):
    odd.put(commit_key(3), b"\xef\xbb\xbf" + odd.read(3))
    with pytest.raises(MalformedActionError, match="version 3, line 1"):
        odd.bring()
    odd.require_nothing()


@pytest.mark.parametrize(
    "spelled",
    [
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: b"\n" + data.replace(b"\n", b"\n\n \t\n"),
        lambda data: data.rstrip(b"\n"),
    ],
    ids=["windows-lines", "blank-lines", "no-newline-at-the-end"],
)
def test_lines_may_end_as_they_like(odd, spelled):
    for version in range(HEAD + 1):
        path = odd.root / commit_key(version)
        path.write_bytes(spelled(path.read_bytes()))
    done = odd.bring()
    odd.require_equal(done)
    kept = inspect(odd.catalog).metastore.payload(done.table_id, 3)
    assert kept == spelled(odd.history.commits[3])


def test_lines_may_be_spaced_as_they_like(odd):
    """A file is a file, whatever blanks stand before its name."""
    for version in range(HEAD + 1):
        lines = odd.read(version).splitlines()
        spaced = [b"\t { " + line[1:].replace(b'":', b'" : ', 1) for line in lines[::2]]
        odd.put(commit_key(version), b"\n".join([*lines[1::2], *spaced]) + b"\n")
    odd.require_equal(odd.bring())


def test_unknown_fields_of_rules_that_are_null_are_no_difference(odd):
    first = odd.read(0).replace(b'"protocol": {', b'"protocol": {"unknown":null,')
    odd.put(commit_key(0), first.replace(b'"format": {', b'"format": {"a":null,'))
    assert b'"unknown":null' in odd.read(0)
    assert b'"a":null' in odd.read(0)
    odd.require_equal(odd.bring())


@pytest.mark.parametrize("at", ["before", "behind"])
def test_what_is_unknown_beside_an_action_is_passed_over(odd, at):
    unknown = b'"futureThing": {"a": [1]}, "note": 7'
    for version in range(HEAD + 1):
        lines = odd.read(version).splitlines()
        bodies = [line[1:-1] for line in lines]
        pairs = [(unknown, body) if at == "before" else (body, unknown) for body in bodies]
        told = [b"{" + b", ".join(pair) + b"}\n" for pair in pairs]
        odd.put(commit_key(version), b"".join(told))
    odd.require_equal(odd.bring())


@pytest.mark.parametrize("turn", [1, -1], ids=["as-written", "reversed"])
def test_actions_may_come_in_any_order(odd, turn):
    for version in range(HEAD + 1):
        path = odd.root / commit_key(version)
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[::turn]))
    odd.require_equal(odd.bring())


@pytest.mark.parametrize("kind", ["metaData", "protocol"])
def test_a_first_version_that_lacks_its_rules_is_refused(odd, kind):
    path = odd.root / commit_key(0)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if kind.encode() not in line))
    with pytest.raises(MalformedActionError, match=f"Version 0 of .* has no {kind}"):
        odd.bring()
    odd.require_nothing()


@pytest.mark.req("R79")
def test_a_reader_feature_of_the_future_is_named(odd):
    features = ["deletionVectors", "timeTravelForward"]
    body = {"minReaderVersion": 3, "minWriterVersion": 7}
    body |= {"readerFeatures": features, "writerFeatures": features}
    path = odd.root / commit_key(6)
    path.write_bytes(path.read_bytes() + json.dumps({"protocol": body}).encode() + b"\n")
    said = "at version 6 cannot be imported by deltasql because of: timeTravelForward"
    with pytest.raises(UnsupportedFeatureError, match=said):
        odd.bring()
    assert odd.catalog.tables() == []


@pytest.mark.req("R79")
def test_a_writer_feature_of_the_future_is_carried(odd):
    body = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["fortuneTelling"]}
    odd.history.commits[6] += json.dumps({"protocol": body}).encode() + b"\n"
    odd.rewrite()
    done = odd.bring()
    odd.require_equal(done)
    assert done.row.state == "read_only"


# Times.


def times_of(odd):
    return [one.committed_at for one in reversed(odd.catalog.table("t").history())]


def test_times_of_files_are_made_to_grow_as_spark_does(odd):
    for version in range(HEAD + 1):
        seconds = START // 1000 + (50 if version == 4 else version)
        os.utime(odd.root / commit_key(version), (seconds, seconds))
    odd.bring()
    rising = [START + 1000 * version for version in range(4)]
    late = [START + 50_000 + n for n in range(HEAD + 1 - 4)]
    assert times_of(odd) == rising + late


def test_times_within_commits_count_before_those_of_files(odd):
    properties = {"delta.enableInCommitTimestamps": "true"}
    for version in range(HEAD + 1):
        lines = [json.loads(line) for line in odd.history.commits[version].splitlines()]
        lines[0]["commitInfo"]["inCommitTimestamp"] = START + 60_000 * version
        for line in lines:
            if "protocol" in line:
                line["protocol"] |= {"minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp"]}
            if "metaData" in line:
                line["metaData"]["configuration"] |= properties
        odd.history.commits[version] = "".join(json.dumps(line) + "\n" for line in lines).encode()
    odd.rewrite()
    done = odd.bring()
    odd.require_equal(done)
    assert times_of(odd) == [START + 60_000 * version for version in range(HEAD + 1)]
