"""About how long an import takes and how big the database becomes: from sizes, better from counts.

The rates were measured on logs of several shapes (few big commits, thousands of small ones, wide
and missing statistics), each loaded into both databases; `Rates` is all there is to measure anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

# A commit's own line (commitInfo) and a remove without statistics, as JSON.
_COMMIT_INFO = 370
_REMOVE = 250
# A file in a Parquet checkpoint: 140 to 430 bytes, by writer and statistics.
_FILE_IN_CHECKPOINT = 220
# An add as JSON, where only the checkpoint tells of the file; 300 to 1,500 are common.
_ADD = 600
# Where nothing is counted: of a hundred bytes of actions, the adds'; and the live ones among them.
_SHARE_OF_ADDS = 0.8
_SHARE_OF_LIVE = 0.5
# A JVM, a session, and its first Python workers.
_SPARK_START = 6.0


@dataclass(frozen=True, slots=True)
class Rates:
    """What a database needs; bytes and seconds for one of each.

    `load_…` is the database's own share of the time, for when the rest was measured.
    `file_bytes` is what a row and its index entries take beyond the add's JSON, whose names and
    escapes it does not store; `version_bytes` includes the queue's row and a small payload's poor
    compression.
    """

    file_bytes: float
    index_bytes: float
    version_bytes: float
    payload_share: float
    empty_bytes: float
    action_seconds: float
    version_seconds: float
    load_action_seconds: float
    load_version_seconds: float
    start_seconds: float
    indexed_columns: int = 5

    def on_spark(self) -> Rates:
        """Return the rates of an import whose tasks run on a Spark that is started for it."""
        return replace(self, start_seconds=self.start_seconds + _SPARK_START)


SQLITE = Rates(
    file_bytes=190,
    index_bytes=31,
    version_bytes=1_230,
    payload_share=0.15,
    empty_bytes=280_000,
    action_seconds=13e-6,
    version_seconds=90e-6,
    load_action_seconds=6e-6,
    load_version_seconds=15e-6,
    start_seconds=0.3,
)
POSTGRES = Rates(
    file_bytes=115,
    index_bytes=144,
    version_bytes=1_350,
    payload_share=0.15,
    empty_bytes=500_000,
    action_seconds=20e-6,
    version_seconds=100e-6,
    load_action_seconds=13e-6,
    load_version_seconds=20e-6,
    start_seconds=0.5,
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a listing tells: how many commits, their bytes, and the checkpoint's to begin with."""

    commits: int
    json_bytes: int
    base_bytes: int


@dataclass(frozen=True, slots=True)
class Counts:
    """What reading tells: actions of the commits, files of the checkpoint, live files at last."""

    adds: int
    removes: int
    live: int
    base_files: int = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """About how long, and how big."""

    seconds: float
    database_bytes: int


def estimate(
    sizes: Sizes,
    counts: Counts | None = None,
    rates: Rates = SQLITE,
    *,
    read_seconds: float | None = None,
) -> Estimate:
    """Return about what an import costs; within a factor of two where `counts` is given.

    `read_seconds` is how long the log took to read, where that was tried: stores and machines
    differ more in that than in anything else.
    """
    known = counts or _guess(sizes)
    rows = known.adds + known.base_files
    text = _adds_json(sizes, known) + known.base_files * _ADD
    size = (
        rates.empty_bytes
        + text
        + rows * rates.file_bytes
        + known.live * rates.indexed_columns * rates.index_bytes
        + sizes.commits * rates.version_bytes
        + sizes.json_bytes * rates.payload_share
    )
    return Estimate(_seconds(sizes, known, rates, read_seconds), int(size))


def _seconds(sizes: Sizes, known: Counts, rates: Rates, read_seconds: float | None) -> float:
    actions = known.adds + known.removes + known.base_files + known.live
    if read_seconds is None:
        work = actions * rates.action_seconds + sizes.commits * rates.version_seconds
    else:
        work = actions * rates.load_action_seconds + sizes.commits * rates.load_version_seconds
        work += read_seconds
    return rates.start_seconds + work


def _adds_json(sizes: Sizes, counts: Counts) -> int:
    """Return what of the commits' bytes are adds: the rest of what is known to be others."""
    if not counts.adds:
        return 0
    others = sizes.commits * _COMMIT_INFO + counts.removes * _REMOVE
    return max(sizes.json_bytes - others, counts.adds * _REMOVE // 2)


def _guess(sizes: Sizes) -> Counts:
    actions = max(sizes.json_bytes - sizes.commits * _COMMIT_INFO, 0)
    adds = round(actions * _SHARE_OF_ADDS / _ADD)
    removes = round(actions * (1 - _SHARE_OF_ADDS) / _REMOVE)
    files = sizes.base_bytes // _FILE_IN_CHECKPOINT
    return Counts(adds, removes, files + round(adds * _SHARE_OF_LIVE), files)
