"""What a caller may ask of a write, read once: Python's spelling or Delta's, nothing unknown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias, TypedDict, cast

from deltasql.client.schema_changes import SchemaMode
from deltasql.errors import BadArgumentError

SaveMode: TypeAlias = Literal["append", "overwrite", "errorifexists", "ignore"]
# The setting of a session that counts where a write says nothing itself.
SESSION_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"

_MODES: Mapping[str, SaveMode] = {
    "append": "append",
    "overwrite": "overwrite",
    "error": "errorifexists",
    "errorifexists": "errorifexists",
    "default": "errorifexists",
    "ignore": "ignore",
}
# The codecs that both writers, Spark's and ours, know by the same name.
_CODECS = ("snappy", "zstd", "gzip", "none", "uncompressed")


class WriteArguments(TypedDict, total=False):
    """The options of a write as keyword arguments."""

    merge_schema: bool
    overwrite_schema: bool
    replace_where: str
    partition_overwrite_mode: str
    txn_app_id: str
    txn_version: int
    user_metadata: str
    max_records_per_file: int
    compression: str
    data_change: bool
    commit_id: str
    location: str
    partition_by: str | Sequence[str]
    storage_options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """One write, in full; `location` and `partition_by` are for a table that is not there yet.

    `zone` is that of times that name none.
    """

    mode: SaveMode = "append"
    merge_schema: bool = False
    overwrite_schema: bool = False
    replace_where: str | None = None
    partition_overwrite_mode: str | None = None
    txn: tuple[str, int] | None = None
    user_metadata: str | None = None
    max_records_per_file: int | None = None
    compression: str = "snappy"
    data_change: bool = True
    commit_id: str | None = None
    location: str | None = None
    partition_by: tuple[str, ...] | None = None
    storage_options: Mapping[str, str] | None = None
    zone: tzinfo = UTC

    @property
    def is_dynamic(self) -> bool:
        """Whether an overwrite replaces only the partitions that it has rows for."""
        return self.partition_overwrite_mode == "dynamic"

    def in_session(self, overwrite_mode: str | None) -> WriteOptions:
        """Return the same write in a session that has set the mode of partition overwrites.

        As in Delta, the write's own partitionOverwriteMode, replaceWhere and overwriteSchema count
        before it.
        """
        is_decided = self.partition_overwrite_mode or self.replace_where or self.overwrite_schema
        if overwrite_mode is None or is_decided:
            return self
        return replace(self, partition_overwrite_mode=overwrite_mode.lower())

    @property
    def schema_mode(self) -> SchemaMode:
        """How the table's schema follows the rows."""
        if self.overwrite_schema:
            return "overwrite"
        return "merge" if self.merge_schema else "strict"


def parse_options(
    mode: str, options: Mapping[str, Any] | None = None, named: Mapping[str, Any] | None = None
) -> WriteOptions:
    """Return what a call asks for.

    `options` are Delta's (mergeSchema, replaceWhere, …, in any case), `named` are ours.

    Raises:
        BadArgumentError: an option is unknown, said twice, of no sense, or against another.
    """
    given = _read(options or {}, named or {})
    app_id, version = given.pop("txn_app_id", None), given.pop("txn_version", None)
    if (app_id is None) != (version is None):
        raise BadArgumentError("txnAppId and txnVersion go together; only one of them is given.")
    chosen = WriteOptions(
        mode=_mode(mode),
        txn=None if app_id is None else (app_id, version),
        **given,
    )
    _refuse_contradictions(chosen)
    return chosen


def _read(options: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, raw in [*options.items(), *named.items()]:
        if raw is None:
            continue
        name = _name(key)
        value = _READERS[name](raw, key)
        if name in found and found[name] != value:
            raise BadArgumentError(f"The option {key} is given twice, with two values.")
        found[name] = value
    return found


def _name(key: str) -> str:
    folded = key.replace("_", "").lower()
    names = {name.replace("_", ""): name for name in _READERS}
    if folded in names:
        return names[folded]
    close = [names[found] for found in get_close_matches(folded, names, 1)]
    known = ", ".join(_READERS)
    meant = [name if "_" in key else _camel(name) for name in close]
    raise BadArgumentError(
        f"A write has no option {key!r}.",
        hint=f"Did you mean {meant[0]}?" if meant else f"Options are: {known}.",
    )


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def _mode(text: str) -> SaveMode:
    found = _MODES.get(text.lower()) if isinstance(text, str) else None
    if found is None:
        raise BadArgumentError(
            f"A write has no mode {text!r}.",
            hint="Modes are append, overwrite, errorifexists (or error) and ignore.",
        )
    return found


def _refuse_contradictions(chosen: WriteOptions) -> None:
    if chosen.mode == "append" and chosen.replace_where is not None:
        raise BadArgumentError("replaceWhere goes with mode overwrite only.")
    if chosen.mode == "append" and chosen.overwrite_schema:
        raise BadArgumentError("overwriteSchema goes with mode overwrite only.")
    if chosen.replace_where is not None and chosen.is_dynamic:
        raise BadArgumentError(
            "replaceWhere and a dynamic partitionOverwriteMode both say what is replaced.",
            hint="Give one of them.",
        )
    if chosen.overwrite_schema and (chosen.replace_where is not None or chosen.is_dynamic):
        raise BadArgumentError(
            "overwriteSchema is for a write that replaces all rows.",
            hint="Use mergeSchema, or leave out replaceWhere and partitionOverwriteMode.",
        )


def _text(raw: Any, key: str) -> str:
    if not isinstance(raw, str) or not raw:
        raise BadArgumentError(f"The option {key} is a text, not {raw!r}.")
    return raw


def _switch(raw: Any, key: str) -> bool:
    if isinstance(raw, bool):
        return raw
    folded = raw.lower() if isinstance(raw, str) else ""
    if folded not in {"true", "false"}:
        raise BadArgumentError(f"The option {key} is true or false, not {raw!r}.")
    return folded == "true"


def _number(raw: Any, key: str) -> int:
    try:
        return int(_text(raw, key)) if not isinstance(raw, int) or isinstance(raw, bool) else raw
    except ValueError as error:
        if isinstance(error, BadArgumentError):
            raise
        raise BadArgumentError(f"The option {key} is a whole number, not {raw!r}.") from error


def _records(raw: Any, key: str) -> int | None:
    """Spark takes zero and less for no limit."""
    number = _number(raw, key)
    return number if number > 0 else None


def _one_of(*known: str) -> Callable[[Any, str], str]:
    def read(raw: Any, key: str) -> str:
        folded = _text(raw, key).lower()
        if folded not in known:
            raise BadArgumentError(
                f"The option {key} cannot be {raw!r}.", hint=f"It is one of: {', '.join(known)}."
            )
        return folded

    return read


def _names(raw: Any, key: str) -> tuple[str, ...]:
    names = (raw,) if isinstance(raw, str) else tuple(cast("Sequence[object]", raw))
    return tuple(_text(name, key) for name in names)


def _mapping(raw: Any, key: str) -> Mapping[str, str]:
    if not isinstance(raw, Mapping):
        raise BadArgumentError(f"The option {key} is a mapping.")
    return dict(raw)


_READERS: Mapping[str, Callable[[Any, str], Any]] = {
    "merge_schema": _switch,
    "overwrite_schema": _switch,
    "replace_where": _text,
    "partition_overwrite_mode": _one_of("static", "dynamic"),
    "txn_app_id": _text,
    "txn_version": _number,
    "user_metadata": _text,
    "max_records_per_file": _records,
    "compression": _one_of(*_CODECS),
    "data_change": _switch,
    "commit_id": _text,
    "location": _text,
    "partition_by": _names,
    "storage_options": _mapping,
}
