"""Names in `_delta_log`: what each is, and which are strangers."""

import pytest

from deltasql.protocol.log_names import (
    MAX_VERSION,
    LogFile,
    LogFileKind,
    checkpoint_path,
    commit_key,
    commit_name,
)

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


@pytest.mark.parametrize(
    ("name", "kind", "version"),
    [
        (f"{0:020d}.json", LogFileKind.COMMIT, 0),
        (f"{7:020d}.json", LogFileKind.COMMIT, 7),
        (f"{MAX_VERSION:020d}.json", LogFileKind.COMMIT, MAX_VERSION),
        (f"{10:020d}.checkpoint.parquet", LogFileKind.CHECKPOINT, 10),
        (f"{10:020d}.checkpoint.0000000002.0000000003.parquet", LogFileKind.MULTIPART, 10),
        (f"{10:020d}.checkpoint.{UUID}.json", LogFileKind.V2, 10),
        (f"{10:020d}.checkpoint.{UUID.upper()}.parquet", LogFileKind.V2, 10),
        (f"{3:020d}.{9:020d}.compacted.json", LogFileKind.COMPACTION, 3),
        (f"{3:020d}.crc", LogFileKind.CHECKSUM, 3),
    ],
)
def test_every_form_is_known(name, kind, version):
    found = LogFile.parse(name)
    assert (found.kind, found.version, found.name) == (kind, version, name)
    assert found.key == f"_delta_log/{name}"


@pytest.mark.parametrize(
    "name",
    [
        "0000000001.json",  # 10 digits, as one of the seeds has it
        "000000000000000001.json",  # 18 digits, as another has it
        "000000000000000000001.json",
        f"{MAX_VERSION + 1:020d}.json",
        "99999999999999999999.json",
        f"{1:020d}.99999999999999999999.compacted.json",
        f"{9:020d}.{3:020d}.compacted.json",
        f"{1:020d}.json.tmp",
        f".{1:020d}.json.{UUID}.tmp",
        f"{1:020d}.{UUID}.json",
        f"{1:020d}.JSON",
        f"{1:020d}.json\n",
        f" {1:020d}.json",
        f"-{1:019d}.json",
        "\N{ARABIC-INDIC DIGIT ONE}" * 20 + ".json",
        f"{1:020d}.checkpoint.json",
        f"{1:020d}.checkpoint.{UUID[:-1]}.json",
        f"{1:020d}.checkpoint.000000001.000000003.parquet",
        "_last_checkpoint",
        "_deltasql",
        "_staged_commits",
        "",
    ],
)
def test_other_names_are_strangers(name):
    assert LogFile.parse(name) is None


@pytest.mark.req("R1")
def test_names_have_twenty_digits():
    assert commit_name(7) == "00000000000000000007.json"
    assert commit_key(7) == "_delta_log/00000000000000000007.json"
    assert checkpoint_path(10) == "_delta_log/00000000000000000010.checkpoint.parquet"
    assert LogFile.parse(commit_name(MAX_VERSION)).version == MAX_VERSION


def test_parts_and_ranges_are_told():
    part = LogFile.parse(f"{10:020d}.checkpoint.0000000002.0000000003.parquet")
    assert (part.part, part.parts) == (2, 3)
    assert LogFile.parse(f"{3:020d}.{9:020d}.compacted.json").last_version == 9


def test_commits_sort_by_version():
    files = [LogFile.parse(commit_name(version)) for version in (10, 9, 100, 0)]
    assert [file.version for file in sorted(files)] == [0, 9, 10, 100]
