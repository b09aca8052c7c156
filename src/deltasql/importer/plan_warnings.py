"""What a listing of a log has that a reader passes over, as named values."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class WarningCode(enum.StrEnum):
    """The name of a remark; stable, for machines."""

    HINT_MISSING = "hint-missing"
    HINT_CORRUPT = "hint-corrupt"
    HINT_STALE = "hint-stale"
    HINT_DANGLING = "hint-dangling"
    HINT_ABOVE_HEAD = "hint-above-head"
    INCOMPLETE_CHECKPOINT = "incomplete-checkpoint"
    EMPTY_CHECKPOINT = "empty-checkpoint"
    CORRUPT_CHECKPOINT = "corrupt-checkpoint"
    ORPHAN_CHECKPOINT = "orphan-checkpoint"
    SEVERAL_CHECKPOINTS = "several-checkpoints"
    CHECKPOINT_ABOVE_COMMITS = "checkpoint-above-commits"
    NO_CHECKPOINT = "no-checkpoint"
    NO_COMMIT_FILE = "no-commit-file"
    EMPTY_COMMIT = "empty-commit"
    UNREACHABLE_VERSIONS = "unreachable-versions"
    HISTORY_SKIPPED = "history-skipped"
    UP_TO_ABOVE_HEAD = "up-to-above-head"
    FILE_ABOVE_HEAD = "file-above-head"
    CHECKSUM_FILES = "checksum-files"
    COMPACTED_FILES = "compacted-files"
    STAGED_COMMITS = "staged-commits"
    HADOOP_FILES = "hadoop-files"
    HIDDEN_FILES = "hidden-files"
    OTHER_DIGITS = "other-digits"
    VERSION_TOO_LARGE = "version-too-large"
    STRANGER = "stranger"
    OWNER_MARKER = "owner-marker"


# what every healthy log may have; the rest deserves a look
_NOTES = frozenset(
    {
        WarningCode.HINT_MISSING,
        WarningCode.HINT_STALE,
        WarningCode.SEVERAL_CHECKPOINTS,
        WarningCode.HISTORY_SKIPPED,
        WarningCode.CHECKSUM_FILES,
        WarningCode.COMPACTED_FILES,
        WarningCode.HADOOP_FILES,
        WarningCode.HIDDEN_FILES,
    }
)


@dataclass(frozen=True, slots=True)
class PlanWarning:
    """One remark: what it is about, in one sentence, and the first of `count` keys."""

    code: WarningCode
    message: str
    key: str | None = None
    count: int = 1

    @property
    def is_note(self) -> bool:
        """Whether healthy logs have it too."""
        return self.code in _NOTES


def corrupt_checkpoint(message: str, key: str | None = None) -> PlanWarning:
    """Return the remark on a checkpoint that cannot be read, which the history can do without."""
    return PlanWarning(WarningCode.CORRUPT_CHECKPOINT, message, key)


_TALLIED = {
    WarningCode.EMPTY_CHECKPOINT: "of checkpoints are empty and count as absent",
    WarningCode.CHECKSUM_FILES: "hold checksums of versions, which import does not need",
    WarningCode.COMPACTED_FILES: "are compacted commits; the commits themselves are imported",
    WarningCode.STAGED_COMMITS: "are staged commits, which only the catalog that made them knows",
    WarningCode.HADOOP_FILES: "are Hadoop's checksums",
    WarningCode.HIDDEN_FILES: "are hidden from readers",
    WarningCode.OTHER_DIGITS: "have names of other than twenty digits, which no reader sees",
    WarningCode.VERSION_TOO_LARGE: "have versions beyond what Delta can count, and are ignored",
    WarningCode.STRANGER: "do not belong to a Delta log, and are ignored",
    WarningCode.FILE_ABOVE_HEAD: "are of versions that the log does not have",
}


@dataclass(slots=True)
class Tally:
    """Counts files by what is to say of them, so that a thousand of them make one remark."""

    seen: dict[WarningCode, tuple[int, str]] = field(default_factory=dict)

    def note(self, code: WarningCode, key: str) -> None:
        """Count one file; the first key of a kind is kept."""
        count, first = self.seen.get(code, (0, key))
        self.seen[code] = (count + 1, first)

    def warnings(self) -> list[PlanWarning]:
        """Return one remark per kind, in the order of the kinds' names."""
        return [
            PlanWarning(code, f"{count} of the files {_TALLIED[code]}: {key!r}.", key, count)
            for code, (count, key) in sorted(self.seen.items())
        ]
