"""Small logs written by hand, imports of them, and deaths that leave everything where it is."""

import json
import os
from pathlib import Path

import pytest

from deltasql.imports.job import ImportOptions, TableImport
from deltasql.imports.load import loader
from deltasql.imports.load.tables import Importing
from deltasql.imports.read import tasks
from deltasql.protocol.log_names import commit_key
from deltasql.testing import inspect

START = 1_700_000_000_000
PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
FIELDS = (("id", "long"), ("p", "string"))


class KillError(BaseException):
    """The process ends here; see `kills`."""


def metadata(fields=FIELDS, **configuration):
    columns = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields
    ]
    return {
        "metaData": {
            "id": "00000000-0000-4000-8000-000000000001",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": columns}),
            "partitionColumns": ["p"],
            "configuration": configuration,
            "createdTime": START,
        }
    }


def add(path, version=0, low=0, high=9, part="a", **more):
    stats = {
        "numRecords": 1,
        "minValues": {"id": low},
        "maxValues": {"id": high},
        "nullCount": {"id": 0},
    }
    return {
        "add": {
            "path": path,
            "partitionValues": {"p": part},
            "size": 1,
            "modificationTime": START + version,
            "dataChange": True,
            "stats": json.dumps(stats),
            **more,
        }
    }


def remove(path, version=0, **more):
    body = {"path": path, "deletionTimestamp": START + version, "dataChange": True}
    return {"remove": body | more}


def info(version, **more):
    body = {"timestamp": START + version, "operation": "WRITE", "operationParameters": {}}
    return {"commitInfo": body | more}


def write_commit(root: Path, version: int, actions, *, seconds: float | None = None, **told):
    """Write a commit file, with a time of its own."""
    path = root / commit_key(version)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [info(version, **told), *actions]
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    at = START / 1000 + version if seconds is None else seconds
    os.utime(path, (at, at))


def write_log(root: Path, commits):
    for version, actions in enumerate(commits):
        first = [PROTOCOL, metadata()] if version == 0 else []
        write_commit(root, version, [*first, *actions])
    return root


def do_import(catalog, root, name="t", **options):
    return TableImport(
        catalog._lazy.create().connection, str(root), name, ImportOptions(**options)
    ).run()


def cut_by(monkeypatch, sizes):
    """Cut windows of one version, and segments of so many windows."""
    left = list(sizes)

    def segments(found, *, is_visible):
        waiting = list(found)
        while waiting:
            count = left.pop(0) if left else len(waiting)
            yield waiting[:count]
            waiting = waiting[count:]

    monkeypatch.setattr(tasks, "TASK_VERSIONS", 1)
    monkeypatch.setattr(loader, "cut_segments", segments)


@pytest.fixture
def kills(monkeypatch):
    """Let a KillError be a kill: an import cleans nothing up."""
    monkeypatch.setattr(Importing, "give_up", lambda *_: None)


def stop_at(point, turn):
    """A hook that kills at the turn-th passing of a point."""
    passed = []

    def stop(name):
        passed.append(name)
        if name == point and passed.count(point) == turn:
            raise KillError

    return stop


def files_of(catalog, table_id, version=None, where=None):
    snapshot = inspect(catalog).metastore.snapshot(table_id, version=version, where=where)
    return sorted(snapshot.files(columns=("path",))["path"].to_pylist())
