"""A table whose clock and file times the test moves, for vacuum and retention."""

import os
from pathlib import Path

import deltasql
from builders import a_table, an_add

HOUR = 3600 * 1000
DAY = 24 * HOUR
START = 1_700_000_000_000


class Stage:
    """A catalog whose clock and file times the test moves."""

    def __init__(self, uri, tmp_path, **options):
        self.now = START
        self.uri = uri
        self.tmp_path = tmp_path
        self.catalog = deltasql.connect(uri, clock=lambda: self.now, **options)
        self.table = a_table(self.catalog, tmp_path, partition_by=[])

    @property
    def place(self) -> Path:
        return Path(self.table.location.removeprefix("file://"))

    def pass_days(self, days: float) -> None:
        self.now += int(days * DAY)

    def put(self, name: str, *, age_days: float = 0) -> str:
        """Write an object that is as old as the clock says."""
        file = self.place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
        moment = (self.now - age_days * DAY) / 1000
        os.utime(file, (moment, moment))
        return name

    def add(self, name: str, **changes):
        self.put(name)
        return an_add(name, day=None, partition_values={}, **changes)

    def files(self) -> set[str]:
        found = {str(file.relative_to(self.place)) for file in self.place.rglob("*")}
        return {name for name in found if "_delta_log" not in name and "." in name}

    def vacuum(self, **options) -> set[str]:
        return {one.key for one in self.table.vacuum(dry_run=False, **options)}
