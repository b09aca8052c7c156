"""Tables of other writers for the import's own tests, and what is left of them afterwards."""

import hashlib
from pathlib import Path

import pyarrow as pa

import deltasql
from deltasql.testing import inspect

LOCAL = ("--engine", "local")


def write_legacy(root: Path) -> Path:
    """Write real rows under a schema that grows, by deltalake, with a checkpoint at version 3."""
    import deltalake

    for number in range(4):
        rows = pa.table({"id": [number], "day": ["a"]})
        deltalake.write_deltalake(str(root), rows, mode="append", partition_by=["day"])
    deltalake.DeltaTable(str(root)).create_checkpoint()
    wider = pa.table({"id": [9], "day": ["b"], "note": ["new"]})
    deltalake.write_deltalake(str(root), wider, mode="append", schema_mode="merge")
    deltalake.DeltaTable(str(root)).delete("id = 1")
    return root


def row_of(target: str, name: str = "orders"):
    """Return a table as the catalog has it."""
    with deltasql.connect(target) as catalog:
        catalog.create_if_missing()
        return inspect(catalog).metastore.table(name)


def fingerprint(root: Path) -> dict[str, str]:
    """Return a digest of every file below a folder."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def checkpoint_at(root: Path, version: int) -> Path:
    """Let deltalake write a checkpoint and return its file."""
    import deltalake

    deltalake.DeltaTable(str(root), version=version).create_checkpoint()
    return root / f"_delta_log/{version:020d}.checkpoint.parquet"


def spoil(path: Path) -> None:
    """Cut a file in half."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
