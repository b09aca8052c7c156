"""What a caller may ask of a write, read once: Python's spelling or Delta's, nothing unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from typing import Any, Literal, TypeAlias, TypedDict

import msgspec

from deltasql.api.write.schema_changes import SchemaMode
from deltasql.errors import BadArgumentError
from deltasql.options import read_options

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
Codec: TypeAlias = Literal["snappy", "zstd", "gzip", "none", "uncompressed"]


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


class _Given(msgspec.Struct, kw_only=True, frozen=True):
    merge_schema: bool = False
    overwrite_schema: bool = False
    replace_where: str | None = None
    partition_overwrite_mode: Literal["static", "dynamic"] | None = None
    txn_app_id: str | None = None
    txn_version: int | None = None
    user_metadata: str | None = None
    max_records_per_file: int | None = None
    compression: Codec = "snappy"
    data_change: bool = True
    commit_id: str | None = None
    location: str | None = None
    partition_by: tuple[str, ...] | None = None
    storage_options: Mapping[str, str] | None = None


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
        BadArgumentError: an option is unknown, given twice, of no sense, or against another.
    """
    given = read_options(_Given, _together(options or {}, named or {}), "A write")
    if (given.txn_app_id is None) != (given.txn_version is None):
        raise BadArgumentError("txnAppId and txnVersion go together; only one of them is given.")
    values = msgspec.structs.asdict(given)
    app_id, version = values.pop("txn_app_id"), values.pop("txn_version")
    if given.max_records_per_file is not None and given.max_records_per_file <= 0:
        values["max_records_per_file"] = None  # as in Spark, no limit
    txn = None if app_id is None else (app_id, version)
    chosen = WriteOptions(_mode(mode), txn=txn, **values)
    _refuse_contradictions(chosen)
    return chosen


def _together(options: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return both; a name that stands in both with two values is refused."""
    for key, value in named.items():
        if value is not None and key in options and options[key] != value:
            raise BadArgumentError(f"The option {key} is given twice, with two values.")
    return {**options, **{key: value for key, value in named.items() if value is not None}}


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
