"""Foreign logs to import: written as JSON lines, without any library, the same bytes each time.

`actions` has 1,000 adds and removes in each commit, `commits` one or two. Seven of ten actions are
adds with the statistics of `synthetic`; the others remove files of earlier commits. A log has no
checkpoint: whoever opens it reads all of it.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import synthetic
from bench.child import call
from bench.results import Plan

EACH = {"actions": 1_000, "commits": 2}
_IN_TEN = 7
# a commit removes files that are older than so many files
_BEHIND = 3


def place_of(plan: Plan, kind: str, commits: int) -> Path:
    """Return the folder of a log's table."""
    return plan.home / f"log-{kind}-{commits}-{_key()}"


def ensure(plan: Plan, kind: str, commits: int) -> str:
    """Write the log of a kind and size, unless a run before has; return its table's folder."""
    place = place_of(plan, kind, commits)
    if not (place / "built").exists():
        shutil.rmtree(place, ignore_errors=True)
        plan.say(f"writing a log of {commits:,} commits, {kind}")
        call("bench.logs:build", timeout=3600, place=str(place), kind=kind, commits=commits)
        (place / "built").touch()
    return str(place / "table")


def _key() -> str:
    files = (Path(__file__), Path(synthetic.__file__))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]


def build(place: str, kind: str, commits: int) -> dict[str, Any]:
    """In a child: write the log."""
    log = Path(place) / "table/_delta_log"
    log.mkdir(parents=True)
    for version, lines in enumerate(history(kind, commits)):
        (log / f"{version:020d}.json").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {}


def history(kind: str, commits: int) -> Iterator[list[str]]:
    """Yield the lines of each commit, the first of which makes the table."""
    each = EACH[kind]
    total = each * (commits - 1)
    files = sum(1 for number in range(total) if _is_add(number))
    added = removed = 0
    yield [_info(0), *_beginning()]
    for version in range(1, commits):
        lines, known = [_info(version)], added
        for number in range((version - 1) * each, version * each):
            if _is_add(number) or removed >= known - _BEHIND:
                lines.append(_dump(synthetic.add(added, files)))
                added += 1
            else:
                lines.append(_remove(removed, files, version))
                removed += 1
        yield lines


def _is_add(number: int) -> bool:
    return number % 10 < _IN_TEN


def _remove(i: int, files: int, version: int) -> str:
    body = {
        "path": synthetic.path(i, files),
        "deletionTimestamp": synthetic.modified(version * 4),
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": {"date": synthetic.day(i, files)},
        "size": synthetic.size(i),
    }
    return _dump({"remove": body})


def _info(version: int) -> str:
    body = {
        "timestamp": synthetic.modified(version * 4),
        "operation": "MERGE" if version else "CREATE TABLE",
        "operationParameters": {"predicate": "[]"},
        "isolationLevel": "Serializable",
        "isBlindAppend": False,
        "operationMetrics": {"numTargetFilesAdded": "1", "numOutputRows": "1000"},
        "engineInfo": "Apache-Spark/3.5.0 Delta-Lake/3.1.0",
        "txnId": f"{version:08x}-0000-4000-8000-000000000000",
    }
    return _dump({"commitInfo": body})


def _beginning() -> Iterator[str]:
    yield _dump({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}})
    body = {
        "id": "00000000-0000-4000-8000-000000000001",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": synthetic.SCHEMA,
        "partitionColumns": ["date"],
        "configuration": {},
        "createdTime": synthetic.modified(0),
    }
    yield _dump({"metaData": body})


def _dump(action: dict[str, Any]) -> str:
    return json.dumps(action, separators=(",", ":"))
