"""Which engine an import runs on: Spark where it can be had, else this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

from deltasql.errors import BadArgumentError
from deltasql.importer.engine import Engine, LocalEngine

EngineKind = Literal["auto", "spark", "local"]
_INSTEAD = (
    "Spark is not installed here (pip install 'deltasql[spark]'): the import runs in this process."
)


@dataclass(frozen=True, slots=True)
class ChosenEngine:
    """An engine, and one line about it: why it is not the one to be expected, or where it shows."""

    engine: Engine
    note: str | None = field(default=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop what was started for the engine."""
        self.engine.close()


def choose_engine(
    kind: EngineKind, *, master: str | None = None, conf: Mapping[str, str] | None = None
) -> ChosenEngine:
    """Return the engine for imports; the caller closes it.

    Whoever names a master or a setting of Spark wants Spark.

    Raises:
        MissingExtraError: Spark is wanted, and it or Java is missing.
        BadArgumentError: settings do not fit together.
        TableImportError: Spark does not start.
    """
    wants_spark = kind == "spark" or master is not None or bool(conf)
    if kind == "local":
        if wants_spark:
            raise BadArgumentError(
                "The local engine has no master and no settings of Spark.",
                hint="Leave out `master=` and `conf=`, or use `engine='spark'`.",
            )
        return ChosenEngine(LocalEngine())
    from deltasql.jobs.session import available  # noqa: PLC0415 (the door to an extra)

    if not wants_spark and not available():
        return ChosenEngine(LocalEngine(), _INSTEAD)
    return _spark_engine(master, conf or {})


def _spark_engine(master: str | None, conf: Mapping[str, str]) -> ChosenEngine:
    from deltasql.jobs.engine import SparkEngine  # noqa: PLC0415 (the door to an extra)
    from deltasql.jobs.session import import_session  # noqa: PLC0415

    spark = import_session(master, conf)
    try:
        note = f"Spark shows its jobs at {spark.page}." if spark.page else None
        return ChosenEngine(SparkEngine(spark), note)
    except BaseException:
        spark.close()
        raise
