"""Fail on names that were retired because a reader of SQL, Delta and Spark must translate them."""

import io
import re
import sys
import tokenize
from pathlib import Path

FOLDERS = ("src", "tests", "tools", "bench", "examples")
# retired name: what the code says instead
RETIRED = {
    "Told": "ImportReport",
    "Admission": "BatchLimit",
    "Breakers": "CircuitBreakers",
    "BulkWork": "BulkTransaction",
    "CutoverBook": "CutoverStore",
    "Follower": "CommitFilter",
    "ImportDesk": "CatalogImports",
    "OpenWork": "InFlightWrites",
    "Orphanage": "OrphanScan",
    "PartedQuery": "SplitQuery",
    "PostgresBulkWork": "PostgresBulkTransaction",
    "ReconcilerSwept": "ReconcilePassFinished",
    "ReconcilerTroubled": "ReconcilerFailed",
    "Slots": "InFlightTables",
    "StagedTable": "TableWrite",
    "VacuumBook": "VacuumStore",
    "Wakes": "WorkSignal",
    "Witness": "LogSummary",
    "Work": "DbTransaction",
    "WriteDesk": "TwoStepWrite",
    "arrow_few": "fetch_arrow_small",
    "arrow_parted": "fetch_arrow_parallel",
    "baseless": "no_base_error",
    "changed_commit": "commit_bytes_differ",
    "foreign_commit": "commit_conflict",
    "going_on": "resume_options",
    "is_passing": "is_retryable_code",
    "left_aside": "abandoned_forced_imports",
    "named_twice": "named_twice_error",
    "other_words": "metadata_differs",
    "reconciler_swept": "reconcile_pass_finished",
    "reconciler_troubled": "reconciler_failed",
    "sound_part": "pushable_part",
    "stamps_commits": "has_server_timestamp",
    "tell_commits": "notify_commits",
    "told_by_spark": "translate_spark_errors",
    "unknown_commit": "commit_not_in_catalog",
    "wrong_hint": "last_checkpoint_wrong",
}
# retired in prose: docstrings, comments and messages of the package
PHRASES = {r"\bthe book\b": "the catalog"}


def main() -> int:
    root = Path(__file__).parent.parent
    files = [file for folder in FOLDERS for file in sorted((root / folder).rglob("*.py"))]
    found = [
        f"{file.relative_to(root)}:{line}: {text}"
        for file in files
        if file != Path(__file__)
        for line, text in retired_words(file.read_text(encoding="utf-8"))
    ]
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


def retired_words(source: str) -> list[tuple[int, str]]:
    """Return the lines with a retired name or phrase, each with what to write instead."""
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    names = [
        (token.start[0], f"{token.string} is retired: {RETIRED[token.string]}")
        for token in tokens
        if token.type == tokenize.NAME and token.string in RETIRED
    ]
    phrases = [
        (token.start[0], f"{phrase} is retired: {instead}")
        for token in tokens
        if token.type in {tokenize.COMMENT, tokenize.STRING}
        for phrase, instead in PHRASES.items()
        if re.search(phrase, token.string, re.IGNORECASE)
    ]
    return sorted(names + phrases)


if __name__ == "__main__":
    sys.exit(main())
