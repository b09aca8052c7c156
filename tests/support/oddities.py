"""A log that is made odd, and what an import of it must come to."""

from pathlib import Path
from typing import Self

import deltasql
from deltasql.imports.job import Imported, ImportOptions, TableImport
from deltasql.protocol.actions import path_key
from deltasql.protocol.log_names import LOG_FOLDER, commit_key
from deltasql.testing import inspect
from histories import History

HEAD = 11


class OddLog:
    """A sound history on disk, to be damaged, and an empty catalog; to be closed by `with`."""

    def __init__(self, folder: Path, history: History | None = None) -> None:
        self.history = history or History(4, versions=HEAD + 1, vectors=False)
        self.root = self.history.write(folder / "t")
        self.catalog = deltasql.connect(f"deltasql://sqlite/{folder}/catalog.db")
        self.catalog.create_if_missing()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.catalog.close()

    def bring(self, **options) -> Imported:
        """Import the log."""
        wanted = ImportOptions(**options)
        return TableImport(
            self.catalog._lazy.create().connection, str(self.root), "t", wanted
        ).run()

    def read(self, version: int) -> bytes:
        return (self.root / commit_key(version)).read_bytes()

    def put(self, name: str, data: bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def rewrite(self) -> None:
        """Write the history again, after it was changed."""
        self.history.write(self.root)

    def cut(self, first: int) -> None:
        """Delete all commits before a version, as cleanup does."""
        for version in range(first):
            (self.root / commit_key(version)).unlink()

    def files(self, version: int) -> list[tuple[str, str, int]]:
        row = inspect(self.catalog).metastore.table("t")
        snapshot = inspect(self.catalog).metastore.snapshot(row.table_id, version=version)
        found = snapshot.files(columns=("path", "dv_id", "size")).to_pylist()
        return sorted((path_key(one["path"]), one["dv_id"], one["size"]) for one in found)

    def require_equal(self, done: Imported, first: int = 0) -> None:
        """The import is what a naive replay of the sound log gives, from its first version on."""
        head = len(self.history.commits) - 1
        assert (done.row.first_version, done.row.current_version) == (first, head)
        for version, state in enumerate(self.history.states()):
            if version >= first:
                known = sorted((path_key(f.path), f.dv_id, f.size) for f in state.files.values())
                assert self.files(version) == known, version
        assert list(done.validation.lines()) == []

    def require_nothing(self) -> None:
        """Nothing is left, visible or not."""
        assert self.catalog.tables() == []
        assert inspect(self.catalog).metastore.tables() == []


def checkpoint_name(version: int, form: str = "checkpoint.parquet") -> str:
    return f"{LOG_FOLDER}{version:020d}.{form}"


def warned(done: Imported) -> set[str]:
    """The names of what an import remarked."""
    return {str(warning.code) for warning in done.warnings}
