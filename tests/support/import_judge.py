"""Imports damaged logs and judges what came of it, without believing deltasql's own decoder."""

import io
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import deltasql
from builders import NO_MIRROR
from deltasql.errors import DeltaSqlError
from deltasql.imports.job import Imported, TableImport
from deltasql.imports.plan.import_plan import ImportPlan
from deltasql.metastore.table_row import TableRow, TableState
from deltasql.protocol.log_names import LOG_FOLDER, commit_key
from deltasql.testing import inspect
from limits import Taken, measured

# so many imports share a catalog
_SHARED = 100
_LOCAL = re.compile(r"^(?:file:(?://)?)?/(?!/)")


@dataclass(frozen=True)
class Outcome:
    """How an import ended: `refused` with a code, `equal`, or `different`, and what it took."""

    kind: str
    said: str
    codes: tuple[str, ...]
    taken: Taken = field(default_factory=Taken)


class Judge:
    """Imports one log after the other, in a folder of its own."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.done = 0
        self.catalog: deltasql.Catalog | None = None

    def __call__(self, place: str) -> Outcome:
        """Import the table at a place; `AssertionError` says what is wrong with the outcome."""
        root, catalog = Path(place), self._fresh()
        before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
        done: Imported | None = None
        with measured() as taken:
            try:
                done = TableImport(catalog._lazy.create().connection, str(root), "t").run()
            except DeltaSqlError as error:
                check_error(error)
                outcome = Outcome("refused", error.message, (error.code,))
        if done is None:
            require_hidden(catalog, root)
        else:
            outcome = require_right(catalog, done, root)
        assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
        for info in [*catalog.tables(), *catalog.unfinished_imports()]:
            catalog.drop(info.name)
        return replace(outcome, taken=taken)

    def _fresh(self) -> deltasql.Catalog:
        if self.done % _SHARED == 0:
            if self.catalog is not None:
                self.catalog.close()
            uri = f"deltasql://sqlite/{self.folder}/catalog-{self.done}.db"
            self.catalog = deltasql.connect(uri, settings=NO_MIRROR)
            self.catalog.create_if_missing()
        self.done += 1
        assert self.catalog is not None
        return self.catalog


def check_error(error: DeltaSqlError) -> None:
    """One printable sentence with a code, and no word of how it came about."""
    assert re.fullmatch(r"DS\d{3}", error.code)
    assert error.code != DeltaSqlError.code
    assert error.message.isprintable()
    assert 10 < len(error.message) <= 1000
    assert "Traceback" not in error.message


def require_hidden(catalog: deltasql.Catalog, root: Path) -> None:
    """Nothing is visible; what stays for `resume` is whole and what the log says."""
    assert catalog.tables() == []
    for info in catalog.unfinished_imports():
        row = inspect(catalog).metastore.table(info.name)
        assert row.state is TableState.IMPORTING
        assert row.current_version >= row.first_version
        if row.first_version == 0 and (root / commit_key(0)).exists():
            require_state(catalog, row, replayed(root, None, 0, row.current_version))


def require_right(catalog: deltasql.Catalog, done: Imported, root: Path) -> Outcome:
    row = done.row
    assert row.state is TableState.READ_ONLY
    assert (row.first_version, row.current_version) == (done.plan.first, done.plan.head)
    some = random.Random(row.current_version).randint(row.first_version, row.current_version)
    for version in {row.current_version, some}:
        require_state(catalog, row, replayed(root, done.plan, row.first_version, version), version)
    for version in range(row.first_version, row.current_version + 1):
        path = root / commit_key(version)
        if path.exists() and path.stat().st_size:
            assert inspect(catalog).metastore.payload(row.table_id, version) == path.read_bytes()
    assert done.validation is not None
    codes = tuple(str(warning.code) for warning in done.warnings)
    wrong = [check.name for check in done.validation.failed]
    if not wrong:
        return Outcome("equal", "", codes)
    # a checkpoint that was damaged, or that tells of commits before they were, contradicts them
    assert all("checkpoint" in name for name in wrong), list(done.validation.lines())
    return Outcome("different", next(done.validation.lines()), codes)


def require_state(
    catalog: deltasql.Catalog, row: TableRow, told: dict[str, Any], version: int | None = None
) -> None:
    """SQL has of a version exactly what a naive replay gives."""
    snapshot = inspect(catalog).metastore.snapshot(row.table_id, version=version)
    files = snapshot.files(columns=("path", "dv_id", "size", "partition_values")).to_pylist()
    found = {
        (spelled(one["path"]), one["dv_id"]): (one["size"], json.loads(one["partition_values"]))
        for one in files
    }
    assert len(found) == len(files)
    assert found == told["files"]
    assert {one.app_id: one.version for one in snapshot.txns()} == told["txns"]
    assert {one.domain: one.configuration for one in snapshot.domains()} == told["domains"]
    metadata, protocol = told["metaData"], told["protocol"]
    assert snapshot.metadata.id == metadata["id"]
    if metadata.get("schemaString") is not None:
        assert snapshot.metadata.schema_string == metadata["schemaString"]
    assert snapshot.metadata.partition_columns == (metadata.get("partitionColumns") or [])
    assert snapshot.metadata.configuration == (metadata.get("configuration") or {})
    assert snapshot.protocol.min_reader_version == protocol["minReaderVersion"]
    assert snapshot.protocol.min_writer_version == protocol["minWriterVersion"]
    for name in ("readerFeatures", "writerFeatures"):
        known = {"readerFeatures": snapshot.protocol.reader_features}.get(
            name, snapshot.protocol.writer_features
        )
        assert sorted(known or []) == sorted(protocol.get(name) or [])


def replayed(root: Path, plan: ImportPlan | None, first: int, last: int) -> dict[str, Any]:
    """What the log says at a version, by the standard library's JSON and a map."""
    state: dict[str, Any] = {"files": {}, "txns": {}, "domains": {}}
    if plan is not None and plan.base is not None:
        for part in plan.base_parts:
            apply(state, list(checkpoint_actions(root, part.key)))
        first += 1
    for version in range(first, last + 1):
        apply(state, list(lines_of(root / commit_key(version))))
    return state


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_bytes().split(b"\n"):
        if line.strip():
            yield json.loads(line.decode())


def checkpoint_actions(root: Path, key: str) -> Iterator[dict[str, Any]]:
    if key.endswith(".json"):
        rows = list(lines_of(root / key))
    else:
        table = pq.read_table(io.BytesIO((root / key).read_bytes()))
        rows = table.to_pylist(maps_as_pydicts="lossy")
    for row in rows:
        yield {kind: body for kind, body in row.items() if body is not None}
        if row.get("sidecar"):
            name = f"{LOG_FOLDER}_sidecars/{row['sidecar']['path']}"
            yield from checkpoint_actions(root, name)


def apply(state: dict[str, Any], actions: list[dict[str, Any]]) -> None:
    files = state["files"]
    for body in bodies(actions, "remove"):
        files.pop((spelled(body["path"]), vector_id(body)), None)
    for body in bodies(actions, "add"):
        told = (body["size"], body["partitionValues"])
        files[(spelled(body["path"]), vector_id(body))] = told
    for body in bodies(actions, "txn"):
        state["txns"][body["appId"]] = body["version"]
    for body in bodies(actions, "domainMetadata"):
        state["domains"].pop(body["domain"], None)
        if not body["removed"]:
            state["domains"][body["domain"]] = body["configuration"]
    for kind in ("metaData", "protocol"):
        for body in bodies(actions, kind):
            state[kind] = body


def bodies(actions: list[dict[str, Any]], kind: str) -> Iterator[dict[str, Any]]:
    return (action[kind] for action in actions if action.get(kind))


def vector_id(body: dict[str, Any]) -> str:
    vector = body.get("deletionVector")
    if not vector:
        return ""
    offset = vector.get("offset")
    end = "" if offset is None else f"@{offset}"
    return f"{vector['storageType']}{vector['pathOrInlineDv']}{end}"


def spelled(path: str) -> str:
    found = _LOCAL.match(path)
    return path if found is None else "file:///" + path[found.end() :]
