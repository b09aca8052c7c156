"""Whole tables as other writers leave them: real Parquet files under any protocol and metadata."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltasql.protocol.log_names import commit_key

TABLE_ID = "3d5b7a52-6a6c-4d0e-9f6e-0f8f5f1f9a11"


def a_field(name: str, kind: Any = "long", *, nullable: bool = True, **metadata: Any) -> dict:
    """Return a column of a schema; double underscores in names of its metadata are dots."""
    told = {key.replace("__", "."): value for key, value in metadata.items()}
    return {"name": name, "type": kind, "nullable": nullable, "metadata": told}


@dataclass(frozen=True)
class ForeignTable:
    """A table of another writer; `versions` are reader and writer version."""

    versions: tuple[int, int] = (1, 2)
    fields: Sequence[dict] = (a_field("id"), a_field("p", "string"))
    partition_by: Sequence[str] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    reader_features: Sequence[str] | None = None
    writer_features: Sequence[str] | None = None

    @property
    def protocol(self) -> dict:
        reader, writer = self.versions
        told: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": writer}
        if self.reader_features is not None:
            told["readerFeatures"] = list(self.reader_features)
        if self.writer_features is not None:
            told["writerFeatures"] = list(self.writer_features)
        return told

    @property
    def metadata(self) -> dict:
        return {
            "id": TABLE_ID,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": list(self.fields)}),
            "partitionColumns": list(self.partition_by),
            "configuration": dict(self.configuration),
            "createdTime": 1_700_000_000_000,
        }

    def write(self, root: Path, files: Iterable[tuple[Mapping[str, str | None], pa.Table]]) -> Path:
        """Write the table as version 0: its rules, and one file for each values and rows."""
        actions: list[dict] = [
            {"commitInfo": {"timestamp": 1_700_000_000_000, "operation": "FOREIGN"}},
            {"protocol": self.protocol},
            {"metaData": self.metadata},
        ]
        for number, (values, rows) in enumerate(files):
            actions.append({"add": _write_file(root, f"part-{number}.parquet", values, rows)})
        put_commit(root, 0, *actions)
        return root


def put_commit(root: Path, version: int, *actions: dict) -> None:
    """Put a commit of JSON objects into a log."""
    path = root / commit_key(version)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))


def _write_file(root: Path, name: str, values: Mapping[str, str | None], rows: pa.Table) -> dict:
    root.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, root / name)
    return {
        "path": name,
        "partitionValues": dict(values),
        "size": (root / name).stat().st_size,
        "modificationTime": 1_700_000_000_000,
        "dataChange": True,
        "stats": json.dumps({"numRecords": rows.num_rows}),
    }
