"""Logs with a made-up history: every kind of event that a replay must get right."""

import json
import random
from collections.abc import Iterable
from pathlib import Path

from deltasql.protocol.actions import Action
from deltasql.protocol.codec import decode_commit
from deltasql.protocol.log_names import commit_key
from deltasql.testing.invariants import TableState

_SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in (("id", "long"), ("p", "string"))
        ],
    }
)
START = 1_700_000_000_000


class History:
    """The commits of a table whose files come, go, come again and are told twice."""

    def __init__(self, seed: int, versions: int = 30, *, vectors: bool = True) -> None:
        self.random = random.Random(seed)
        self.vectors = vectors
        self.live: list[dict] = []
        self.gone: list[dict] = []
        self.made = 0
        self.commits = [self._first(), *(self._next(v) for v in range(1, versions))]

    def write(self, root: Path) -> Path:
        """Put the log below a folder and return it."""
        for version, payload in enumerate(self.commits):
            path = root / commit_key(version)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(payload)
        return root

    def states(self) -> list[TableState]:
        """What a naive replay gives after each version."""
        found = []
        for last in range(len(self.commits)):
            state = TableState()
            for version, payload in enumerate(self.commits[: last + 1]):
                state.apply(version, decode_commit(payload, version=version))
            found.append(state)
        return found

    def _first(self) -> bytes:
        protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
        if self.vectors:
            features = ["deletionVectors"]
            protocol = {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features,
                "writerFeatures": [*features, "domainMetadata"],
            }
        return _lines([self._info(0), {"protocol": protocol}, self._metadata(0)])

    def _next(self, version: int) -> bytes:
        actions = [self._info(version)]
        taken: set = set()
        for _ in range(self.random.randrange(5)):
            actions += self._file_event(version, taken)
        if self.random.random() < 0.2:
            app = f"app-{self.random.randrange(3)}"
            actions.append({"txn": {"appId": app, "version": version, "lastUpdated": START}})
        if self.random.random() < 0.1:
            actions.append(self._metadata(version))
        if self.random.random() < 0.15:
            removed = self.random.random() < 0.4
            domain = f"domain-{self.random.randrange(2)}"
            body = {"domain": domain, "configuration": f"{version}", "removed": removed}
            actions.append({"domainMetadata": body})
        return _lines(actions)

    def _file_event(self, version: int, taken: set) -> list[dict]:
        kind = self.random.choice(["add", "add", "remove", "again", "back", "unknown", "vector"])
        if kind == "add":
            self.made += 1
            absolute = self.random.random() < 0.1
            path = f"{'file:///x/' if absolute else ''}p=a/part-{self.made}.parquet"
            return self._add(version, taken, path, None)
        if kind == "unknown":
            return self._remove(version, taken, {"path": f"never-{self.random.randrange(3)}"})
        pool = self.gone if kind == "back" else self.live
        if not pool:
            return []
        found = self.random.choice(pool)
        if kind == "remove":
            return self._remove(version, taken, found)
        if kind == "vector" and self.vectors:
            vector = {
                "storageType": "u",
                "pathOrInlineDv": f"{version:020d}",
                "offset": 1,
                "sizeInBytes": 10,
                "cardinality": 1,
            }
            removed = self._remove(version, taken, found)
            return removed and removed + self._add(version, taken, found["path"], vector)
        return self._add(version, taken, found["path"], found.get("deletionVector"))

    def _add(self, version: int, taken: set, path: str, vector: dict | None) -> list[dict]:
        key = (path, json.dumps(vector))
        if key in taken:
            return []
        taken.add(key)
        body = {
            "path": path,
            "partitionValues": {"p": self.random.choice(["a", "", None])},
            "size": self.random.randrange(1000),
            "modificationTime": START + version,
            "dataChange": True,
        }
        if self.random.random() < 0.7:
            body["stats"] = json.dumps({"numRecords": self.random.randrange(50)})
        if vector is not None:
            body["deletionVector"] = vector
        self.live = [one for one in self.live if _key(one) != key] + [body]
        return [{"add": body}]

    def _remove(self, version: int, taken: set, file: dict) -> list[dict]:
        key = _key(file)
        if key in taken:
            return []
        taken.add(key)
        path = file["path"]
        if path.startswith("file:///x/"):
            path = self.random.choice([path, path.replace("file://", "")])
        body = {"path": path, "deletionTimestamp": START + version, "dataChange": True}
        if "deletionVector" in file:
            body["deletionVector"] = file["deletionVector"]
        if file in self.live:
            self.live.remove(file)
            self.gone.append(file)
        return [{"remove": body}]

    def _info(self, version: int) -> dict:
        body = {"timestamp": START + version, "operation": "WRITE", "operationParameters": {}}
        # now and then a token is told twice, as copied logs do
        body["txnId"] = f"token-{version if self.random.random() < 0.9 else 0}"
        return {"commitInfo": body}

    def _metadata(self, version: int) -> dict:
        return {
            "metaData": {
                "id": "00000000-0000-4000-8000-000000000001",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": _SCHEMA,
                "partitionColumns": ["p"],
                "configuration": {"user.version": str(version)},
                "createdTime": START,
            }
        }


def _key(file: dict) -> tuple[str, str]:
    return file["path"], json.dumps(file.get("deletionVector"))


def _lines(actions: list[dict]) -> bytes:
    return b"".join(json.dumps(action).encode() + b"\n" for action in actions)


def replay(commits: Iterable[tuple[int, Iterable[Action]]]) -> TableState:
    """Return the state after the commits, which come in version order."""
    state = TableState()
    for version, actions in commits:
        state.apply(version, actions)
    return state
