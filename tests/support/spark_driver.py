"""An import on Spark in a process of its own, to be watched and killed: `spark_driver.py JSON`.

It tells the JVM's process when Spark is there, and at the end what it imported.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import deltasql
from deltasql.errors import DeltaSqlError
from deltasql.imports.engines.local import choose_engine
from deltasql.imports.job import ImportOptions, TableImport
from deltasql.imports.load.loader import Progress
from deltasql.imports.read import tasks
from deltasql.testing import inspect
from spark_stores import Opener, Through

_TESTS = Path(__file__).parent
CUT = 3


@dataclass(frozen=True)
class Call:
    """What a driver is asked to do; `fault` are the marks and the kind of an `Opener`."""

    uri: str
    source: str
    master: str = "local[2]"
    conf: dict[str, str] = field(default_factory=dict)
    storage: dict[str, str] = field(default_factory=dict)
    fault: tuple[str, str] | None = None
    segment_bytes: int = tasks.SEGMENT_BYTES

    def start(self, **env: str) -> subprocess.Popen[str]:
        """Begin, and come back when Spark is there."""
        words = [sys.executable, str(Path(__file__)), json.dumps(vars(self))]
        own = {**os.environ, "PYTHONPATH": str(_TESTS), **env}
        pipe = subprocess.PIPE
        return subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, env=own)

    def run(self) -> dict[str, Any]:
        """Import and tell how it went."""
        tasks.TASK_VERSIONS, tasks.SEGMENT_BYTES = CUT, self.segment_bytes
        with deltasql.connect(self.uri, storage_options=self.storage) as catalog:
            catalog.create_if_missing()
            connection = inspect(catalog).connection
            with choose_engine("spark", master=self.master, conf=self.conf) as chosen:
                _tell({"jvm": chosen.engine.session.context._gateway.proc.pid})
                engine = chosen.engine
                if self.fault is not None:
                    engine = Through(engine, Opener(self.source, *self.fault))
                begun = "t" in [row.name for row in connection.metastore.tables()]
                options = ImportOptions(resume=begun)
                call = TableImport(connection, self.source, "t", options, engine, self._loaded)
                done = call.run()
                java = chosen.engine.session.context._jvm.System.getProperty("java.home")
                return {"engine": done.engine, "versions": done.counts.versions, "java": java}

    def _loaded(self, progress: Progress) -> None:
        """Mark the versions that are loaded: the newest come first."""
        if self.fault is not None and progress.step == "Importing version":
            oldest = progress.head - (progress.version - progress.first)
            for version in range(oldest, progress.head + 1):
                Path(self.fault[0], f"{version:020d}.json.loaded").touch()


def _tell(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    try:
        _tell(Call(**json.loads(sys.argv[1])).run())
    except DeltaSqlError as error:
        _tell({"error": error.code, "message": error.message})
        sys.exit(error.exit_code)
