"""Copies of a catalog's database, taken and put back as an operator would."""

import shutil
from pathlib import Path

import psycopg


class Backup:
    """A copy of a catalog's database, as it is now, that can be put back."""

    def __init__(self, uri: str, tmp_path, server=None) -> None:
        self.uri = uri
        self._file = Path(uri.split("sqlite/")[1]) if "sqlite" in uri else None
        self._kept = tmp_path / "backup.db"
        self._server = server

    @property
    def _name(self) -> str:
        return self.uri.split("/postgres/")[1].split("/")[0]

    def take(self) -> None:
        if self._file is not None:
            shutil.copy(self._file, self._kept)
        else:
            self._admin(f"create database {self._name}_old template {self._name}")

    def put_back(self) -> None:
        if self._file is not None:
            for file in self._file.parent.glob(f"{self._file.name}-*"):
                file.unlink()
            shutil.copy(self._kept, self._file)
        else:
            self._admin(f"drop database {self._name} with (force)")
            self._admin(f"create database {self._name} template {self._name}_old")

    def _admin(self, statement: str) -> None:
        with psycopg.connect(self._server.dsn(), autocommit=True) as connection:
            connection.execute(statement)
