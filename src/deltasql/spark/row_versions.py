"""Rows of tracked tables tell the version that changed them last: that of the whole transaction.

A staged log counts its own versions, and Delta Spark copies the number of a file's version into
the rows that it moves elsewhere. So the files that a statement has added are given the number of
the commit to come before the next statement reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from deltasql.errors import InvalidCommitError
from deltasql.protocol.actions import Add, Remove
from deltasql.protocol.files import LOG_FOLDER, LogFile, LogFileKind, commit_key
from deltasql.spark.fold import StagedCommit

_FIELD = "defaultRowCommitVersion"

# by the version of the commit in the staged log, the version that the rows of each file shall have
Wrong: TypeAlias = Mapping[int, Mapping[str, int | None]]


def right_version(add: Add, original: Add | None, next_version: int) -> int | None:
    """Return the version that the rows of a file have by default.

    A file that the table had before keeps its own, whatever was deleted from it.
    """
    if add.default_row_commit_version is None:
        return None
    known = None if original is None else original.default_row_commit_version
    return next_version if known is None else known


def misnumbered(
    commits: Sequence[StagedCommit], originals: Mapping[str, Add], next_version: int
) -> Wrong:
    """Return the files with another version than they will have."""
    found: dict[int, dict[str, int | None]] = {}
    for commit in commits:
        for add in _adds(commit):
            right = right_version(add, originals.get(add.path), next_version)
            if add.default_row_commit_version != right:
                found.setdefault(commit.version, {})[add.path] = right
    return found


def refuse_copied(table: str, commits: Sequence[StagedCommit], wrong: Wrong) -> None:
    """Refuse that rows were copied out of files with a wrong number.

    Raises:
        InvalidCommitError: names the table.
    """
    for number, paths in wrong.items():
        if paths.keys() & _left(commits, number):
            raise InvalidCommitError(
                f"Table {table} tracks its rows, and a write by path rewrote rows that another "
                "one had just written: their versions would be wrong.",
                hint="Use tx.sql for statements on this table, or call tx.path before each write.",
                table=table,
            )


def renumber(folder: Path, commits: Sequence[StagedCommit], wrong: Wrong) -> bool:
    """Put right what is wrong; files that were left before stay as they are.

    Returns whether the log was changed, so that Delta Spark must read it again.
    """
    changed = False
    for number, versions in wrong.items():
        left = _left(commits, number)
        still = {path: version for path, version in versions.items() if path not in left}
        if still:
            file = folder / commit_key(number)
            lines = [_renumbered(line, still) for line in file.read_text().splitlines()]
            file.write_text("".join(f"{line}\n" for line in lines))
            changed = True
    if changed:
        _drop_derived(folder / LOG_FOLDER)
    return changed


def _adds(commit: StagedCommit) -> Iterator[Add]:
    return (action for action in commit.actions if isinstance(action, Add))


def _left(commits: Sequence[StagedCommit], since: int) -> set[str]:
    """Return the files that rows were taken out of later; one with a new vector is not left."""
    found: set[str] = set()
    for commit in (one for one in commits if one.version > since):
        kept = {add.path for add in _adds(commit)}
        found |= {a.path for a in commit.actions if isinstance(a, Remove)} - kept
    return found


def _renumbered(line: str, versions: Mapping[str, int | None]) -> str:
    action = json.loads(line)
    path = action.get("add", {}).get("path")
    if path not in versions:
        return line
    action["add"][_FIELD] = versions[path]
    return json.dumps(action, separators=(",", ":"), ensure_ascii=False)


def _drop_derived(log: Path) -> None:
    """Delete what Delta Spark derived from the commits: checkpoints, and checksums of all kinds."""
    for file in log.iterdir():
        known = LogFile.parse(file.name)
        is_commit = known is not None and known.kind is LogFileKind.COMMIT
        is_of_the_first = file.name.lstrip(".").startswith(f"{0:020}")
        if file.is_file() and not is_commit and not is_of_the_first:
            file.unlink()
