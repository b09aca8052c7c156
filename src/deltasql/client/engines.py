"""Which engine an import runs on: Spark where it can be had, else this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Self

from deltasql.client.session import Session
from deltasql.errors import BadArgumentError
from deltasql.importer.engine import Engine, LocalEngine

if TYPE_CHECKING:
    from deltasql.jobs.session import ImportSession
    from deltasql.jobs.staging import Staging

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
    kind: EngineKind,
    session: Session,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> ChosenEngine:
    """Return the engine for imports into a catalog; the caller closes it.

    Whoever names a master or a setting of Spark wants Spark.

    Raises:
        MissingExtraError: Spark is wanted, and it or Java is missing.
        BadArgumentError: the master cannot serve this catalog, or settings do not fit together.
        TableImportError: Spark does not start.
    """
    wants_spark = kind == "spark" or master is not None or bool(conf)
    if kind == "local":
        if wants_spark:
            raise BadArgumentError(
                "The local engine has no master and no settings of Spark.",
                hint="Leave out --master and --conf, or use --engine spark.",
            )
        return ChosenEngine(LocalEngine())
    from deltasql.jobs.session import available  # noqa: PLC0415 (the door to an extra)

    if not wants_spark and not available():
        return ChosenEngine(LocalEngine(), _INSTEAD)
    return _spark_engine(session, master, conf or {})


def _spark_engine(session: Session, master: str | None, conf: Mapping[str, str]) -> ChosenEngine:
    from deltasql.jobs.engine import SparkEngine  # noqa: PLC0415 (the door to an extra)
    from deltasql.jobs.session import import_session  # noqa: PLC0415

    _refuse_far_workers(session, master)
    spark = import_session(master, conf)
    try:
        note = f"Spark shows its jobs at {spark.page}." if spark.page else None
        return ChosenEngine(SparkEngine(spark, _staging(session, spark)), note)
    except BaseException:
        spark.close()
        raise


def _staging(session: Session, spark: ImportSession) -> Staging:
    if spark.is_local:
        from deltasql.jobs.staging import FolderStaging  # noqa: PLC0415 (the door to an extra)

        return FolderStaging.temporary()
    _refuse_far_workers(session, str(spark.context.master))
    from deltasql.jobs.database_staging import DatabaseStaging  # noqa: PLC0415

    return DatabaseStaging.of(session.book.database)


def _refuse_far_workers(session: Session, master: str | None) -> None:
    """Refuse workers elsewhere before anything starts: they could leave their rows nowhere."""
    is_far = master is not None and not master.startswith("local")
    if is_far and not session.book.database.dialect.has_server_clock:
        raise BadArgumentError(
            f"The master {master} has workers on other machines, which cannot reach the SQLite "
            "file of this catalog.",
            hint="SQLite needs a local master such as local[*]; a cluster needs PostgreSQL.",
        )
