"""Names in `_delta_log`: parsed into values and built from them."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

LOG_FOLDER = "_delta_log/"
LAST_CHECKPOINT = f"{LOG_FOLDER}_last_checkpoint"
# Hadoop's checksum of it on local disks: wrong, and removed, as soon as we write the file.
LAST_CHECKPOINT_CHECKSUM = f"{LOG_FOLDER}._last_checkpoint.crc"
MAX_VERSION = 2**63 - 1
# Folders below a table's root in which a transaction of ours works on a log of its own.
STAGED_PREFIX = "tx-"
# Folders below a table's root into which one write by Spark puts its files.
WRITE_PREFIX = "w-"

_V = r"(?P<version>\d{20})"
_C = rf"{_V}\.checkpoint"
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("commit", re.compile(rf"{_V}\.json")),
    ("checkpoint", re.compile(rf"{_C}\.parquet")),
    (
        "multipart",
        re.compile(rf"{_C}\.(?P<part>\d{{10}})\.(?P<parts>\d{{10}})\.parquet"),
    ),
    (
        "v2",
        re.compile(rf"{_C}\.(?P<uuid>[0-9a-fA-F-]{{36}})\.(?P<format>json|parquet)"),
    ),
    ("compaction", re.compile(rf"{_V}\.(?P<last>\d{{20}})\.compacted\.json")),
    ("checksum", re.compile(rf"{_V}\.crc")),
)


class LogFileKind(enum.StrEnum):
    """What a file in `_delta_log` is."""

    COMMIT = "commit"
    CHECKPOINT = "checkpoint"
    MULTIPART = "multipart"
    V2 = "v2"
    COMPACTION = "compaction"
    CHECKSUM = "checksum"


@dataclass(frozen=True, slots=True, order=True)
class LogFile:
    """A file of the log, by its name."""

    version: int
    kind: LogFileKind
    name: str
    part: int = 0
    parts: int = 0
    last_version: int = 0

    @property
    def key(self) -> str:
        """The object's key below the table's root."""
        return LOG_FOLDER + self.name

    @classmethod
    def parse(cls, name: str) -> LogFile | None:
        """Return what `name` (without folder) is, or None for a stranger."""
        for kind, pattern in _PATTERNS:
            found = pattern.fullmatch(name)
            if found is None or not name.isascii():
                continue
            groups = found.groupdict()
            version = int(groups["version"])
            last = int(groups["last"]) if "last" in groups else version
            if max(version, last) > MAX_VERSION or last < version:
                return None
            part, parts = int(groups.get("part") or 0), int(groups.get("parts") or 0)
            return cls(version, LogFileKind(kind), name, part, parts, last)
        return None


def commit_name(version: int) -> str:
    """Return the file name of a commit: twenty digits."""
    return f"{version:020d}.json"


def commit_key(version: int) -> str:
    """Return the key of a commit below the table's root."""
    return LOG_FOLDER + commit_name(version)


def checkpoint_path(version: int) -> str:
    """Return the key of a classic checkpoint below the table's root."""
    return f"{LOG_FOLDER}{version:020d}.checkpoint.parquet"
