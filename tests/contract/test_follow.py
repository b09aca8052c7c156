"""Readers that follow the log of a read-only import, at the same time."""

import json
import threading
from pathlib import Path

import pytest

import deltasql
from builders import a_table, rows

pytestmark = pytest.mark.req("R103")


class Source:
    """A log that somebody else writes."""

    def __init__(self, tmp_path):
        with deltasql.connect(f"deltasql://sqlite/{tmp_path}/other.db") as other:
            table = a_table(other, tmp_path, "source")
            table.append(rows(1))
            self.version = table.detach()
            self.location = table.location

    def commit(self, count):
        for _ in range(count):
            self.version += 1
            info = {"inCommitTimestamp": 4 * 10**12 + self.version, "operation": "WRITE"}
            add = {
                "path": f"f{self.version}.parquet",
                "partitionValues": {"day": "a"},
                "size": 1,
                "modificationTime": 1,
                "dataChange": True,
            }
            lines = [json.dumps({"commitInfo": info}), json.dumps({"add": add})]
            log = Path(self.location.removeprefix("file://")) / "_delta_log"
            (log / f"{self.version:020d}.json").write_text("\n".join(lines) + "\n")


def test_many_readers_follow_one_log_at_once(catalog, tmp_path):
    source = Source(tmp_path)
    catalog.import_table(source.location, "orders", engine="local")
    for _ in range(3):
        source.commit(3)
        versions, errors, start = [], [], threading.Barrier(4)

        def read(start=start, versions=versions, errors=errors):
            start.wait()
            try:
                versions.append(catalog.table("orders", follow=True).version)
            except Exception as error:  # noqa: BLE001 (told by the assertion)
                errors.append(error)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (errors, versions) == ([], [source.version] * 4)
