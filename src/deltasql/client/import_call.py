"""One import by name and options, from the engine's start to its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from deltasql.client.engines import ChosenEngine, EngineKind, choose_engine
from deltasql.client.import_face import Runner, import_one
from deltasql.client.import_names import name_of
from deltasql.client.imports import Imported, ImportOptions
from deltasql.errors import BadArgumentError
from deltasql.importer.progress import Observer
from deltasql.runtime.connection import Connection


@dataclass(frozen=True, slots=True)
class ImportCall:
    """On which engine imports run, and who watches them."""

    engine: EngineKind = "auto"
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    on_progress: Observer | None = None

    def choose(self) -> ChosenEngine:
        """Return the engine; the caller closes it."""
        return choose_engine(self.engine, master=self.master, conf=self.conf)

    def run(
        self, connection: Connection, source: str, name: str | None, options: Mapping[str, Any]
    ) -> Imported:
        """Import one table with an engine of its own."""
        wanted = read_options(options)
        with self.choose() as chosen:
            runner = Runner(chosen.engine, self.on_progress or (lambda _: None))
            return import_one(connection, source, name or name_of(source), wanted, runner)


def read_options(given: Mapping[str, Any]) -> ImportOptions:
    """Return the options by their names.

    Raises:
        BadArgumentError: one is unknown.
    """
    known = {one.name for one in fields(ImportOptions)}
    unknown = sorted(given.keys() - known)
    if unknown:
        raise BadArgumentError(
            f"An import has no option {unknown[0]}.", hint=f"It has {', '.join(sorted(known))}."
        )
    return ImportOptions(**given)
