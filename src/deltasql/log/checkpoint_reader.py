"""Foreign checkpoints as rows: their first part, their files, and how damage shows.

One file, several parts, or V2 (JSON or Parquet) with sidecars. The files are cut into parts that
tasks read on their own, each in bounded memory. What is damaged is told as such, never passed on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow as pa

from deltasql.errors import MalformedActionError, ObjectNotFoundError, ProtocolError
from deltasql.log.parquet_input import ParquetInput, open_parquet, require_sound_names
from deltasql.protocol.actions import (
    Action,
    Add,
    CheckpointMetadata,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Sidecar,
    Txn,
)
from deltasql.protocol.checkpoint.decode import (
    ADD_SCHEMA,
    PARSED,
    REMOVE_SCHEMA,
    add_rows,
    lacks_text,
    present,
    remove_rows,
    rows_of_adds,
    rows_of_removes,
)
from deltasql.protocol.codec import decode_commit, from_json_object
from deltasql.protocol.log_names import LOG_FOLDER, LogFile
from deltasql.protocol.schema.arrow import plain_value
from deltasql.storage.port import ObjectStore

_HINT = (
    "The checkpoint is damaged; restore the file, or begin from an older checkpoint or from the "
    "commits where the log still has them."
)
_WRONG = (
    pa.ArrowException,
    msgspec.MsgspecError,
    OSError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    MemoryError,
    RecursionError,
)

HEAD = ("protocol", "metaData", "txn", "domainMetadata")
_LONGEST_LINE = 128 * 1024 * 1024

_MOST_ROWS = 100_000
_JSON_ROWS = 10_000
_FILES = ("add", "remove")
_V2 = ("checkpointMetadata", "sidecar")
_SIDECARS = f"{LOG_FOLDER}_sidecars/"


def damage(store: ObjectStore, key: str, version: int, reason: str) -> MalformedActionError:
    """Return the error for a checkpoint that cannot be used."""
    return MalformedActionError(
        f"The checkpoint of version {version} cannot be read from {key} at {store.uri}: {reason}.",
        hint=_HINT,
        version=version,
        key=key,
    )


@contextmanager
def told_as_damage(store: ObjectStore, key: str, version: int) -> Iterator[None]:
    """Tell what is wrong with a file of a checkpoint as MalformedActionError.

    A store that cannot be reached, or refuses, keeps its own error: the file may be right.
    """
    try:
        yield
    except ObjectNotFoundError as error:
        raise damage(store, key, version, "there is no such file") from error
    except ProtocolError as error:
        if error.context.get("key") == key:
            raise
        raise damage(store, key, version, error.message.rstrip(".")) from error
    except _WRONG as error:
        raise damage(store, key, version, _reason(error)) from error


def _reason(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def head_actions(batch: pa.RecordBatch) -> Iterator[Action]:
    """Yield the actions in columns that each hold one kind.

    Raises:
        MalformedActionError, TypeError: a column holds no such action.
    """
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if not pa.types.is_struct(field.type):
            raise TypeError(f"`{field.name}` has the type {field.type}")
        for row in column.filter(column.is_valid()).to_pylist():
            body: dict[str, Any] = plain_value(row, field.type)
            if body:  # of a struct whose fields are all null nothing is left
                if field.name == "metaData":
                    body.setdefault("format", {})
                yield _action(field.name, body)


def _action(kind: str, body: dict[str, Any]) -> Action:
    try:
        return from_json_object({kind: body})
    except MalformedActionError as error:
        reason = error.message.partition(": ")[2].rstrip(".")
        raise ValueError(reason or f"`{kind}` is not valid") from error


def json_actions(store: ObjectStore, key: str, version: int) -> Iterator[Action]:
    """Yield the actions of a V2 checkpoint in JSON, line by line.

    Raises:
        ValueError: names the line that is not valid.
    """
    with store.open_input(key) as file:
        number = 0
        while line := file.readline(_LONGEST_LINE):
            number += 1
            if len(line) == _LONGEST_LINE:
                raise ValueError(f"line {number} is too long")
            try:
                yield from decode_commit(line, version=version, lenient=True)
            except MalformedActionError as error:
                reason = error.message.partition(": ")[2].rstrip(".")
                raise ValueError(f"line {number}: {reason}") from error
        if not number:
            raise ValueError("it is empty")


@dataclass(frozen=True, slots=True)
class CheckpointPart:
    """A piece of a checkpoint that one task reads: row groups from, to (exclusive); None = all.

    `rows` is how many rows it has, for estimates of its size.
    """

    key: str
    version: int
    row_groups: tuple[int, int] | None
    rows: int = 0


@dataclass(frozen=True, slots=True)
class StateBatch:
    """Files of a checkpoint in SQL's columns (ADD_SCHEMA and REMOVE_SCHEMA)."""

    adds: pa.RecordBatch
    removes: pa.RecordBatch


def checkpoint_parts(
    store: ObjectStore, files: Sequence[LogFile], *, most_rows: int = _MOST_ROWS
) -> list[CheckpointPart]:
    """Return the parts that hold a checkpoint's files, in an order that is always the same.

    Only footers and the top level of V2 are read. A part has at most `most_rows` rows where its
    writer made row groups that small.

    Raises:
        MalformedActionError: a file is missing or damaged, or is no part of a checkpoint.
    """
    _require_whole(store, files)
    parts: list[CheckpointPart] = []
    sidecars: dict[str, int] = {}
    for file in files:
        with told_as_damage(store, file.key, file.version):
            found, named = _look(store, file, most_rows)
            parts += found
            sidecars.update(dict.fromkeys(named, file.version))
    for key, version in sidecars.items():
        with told_as_damage(store, key, version), _opened(store, key) as parquet:
            parts += _cut(parquet, key, version, most_rows)
    return parts


def read_head(store: ObjectStore, files: Sequence[LogFile]) -> tuple[Action, ...]:
    """Return protocol, metaData, txns and domain metadata; no other column is read.

    Raises:
        MalformedActionError: a file is missing or damaged, or there is not one protocol and one
            metaData.
    """
    _require_whole(store, files)
    head: list[Action] = []
    for file in files:
        with told_as_damage(store, file.key, file.version):
            head += _head_of(store, file)
    kinds = (Protocol, Metadata, Txn, DomainMetadata)
    kept = [one for one in head if isinstance(one, kinds)]
    for kind in (Protocol, Metadata):
        found = [one for one in kept if isinstance(one, kind)]
        if not found or any(one != found[0] for one in found):
            raise damage(store, files[0].key, files[0].version, f"it has not one {kind.kind}")
        for again in found[1:]:  # parts of a set may repeat it
            kept.remove(again)
    return tuple(kept)


def read_few(store: ObjectStore, file: LogFile, kinds: Sequence[str]) -> list[Action]:
    """Return the actions of these kinds in a Parquet checkpoint; no other column is read.

    Raises:
        MalformedActionError: the file is missing or damaged.
    """
    with told_as_damage(store, file.key, file.version), _opened(store, file.key) as parquet:
        return list(_actions(parquet, kinds))


def read_files(store: ObjectStore, part: CheckpointPart) -> Iterator[StateBatch]:
    """Yield the files of a part, batch by batch.

    Raises:
        MalformedActionError: the file is missing or damaged.
    """
    with told_as_damage(store, part.key, part.version):
        if part.row_groups is None:
            yield from _json_files(store, part)
            return
        with _opened(store, part.key) as parquet:
            first, end = part.row_groups
            if end > len(parquet.groups):
                raise ValueError("it is not the file that was planned")
            for group in range(first, end):
                yield from _group_files(parquet, group)


def _require_whole(store: ObjectStore, files: Sequence[LogFile]) -> None:
    """A checkpoint is one file or all parts of one set."""
    if not files:
        raise ValueError("a checkpoint has at least one file")
    first = files[0]
    numbers = [file.part for file in files]
    wanted = list(range(1, len(files) + 1)) if first.parts else [0]
    same = {(file.version, file.kind, file.parts) for file in files}
    if numbers != wanted or len(files) != max(first.parts, 1) or len(same) != 1:
        raise damage(store, first.key, first.version, "its parts are not complete")


def _look(
    store: ObjectStore, file: LogFile, most_rows: int
) -> tuple[list[CheckpointPart], list[str]]:
    """Return the parts of one file, and the keys of the sidecars that it names."""
    if _is_json(file.key):
        sidecars, rows = [], 0
        for action in _checked(json_actions(store, file.key, file.version), file.version):
            rows += isinstance(action, Add | Remove)
            sidecars += [_sidecar_key(action.path)] if isinstance(action, Sidecar) else []
        return [CheckpointPart(file.key, file.version, None, rows)] if rows else [], sidecars
    with _opened(store, file.key) as parquet:
        # a part may lack any kind of action: what it does not have is null
        if not {*_FILES, *HEAD, *_V2} & set(parquet.schema.names):
            raise ValueError("it has no column of a checkpoint")
        named = _checked(_actions(parquet, _V2), file.version)
        sidecars = [_sidecar_key(one.path) for one in named if isinstance(one, Sidecar)]
        return _cut(parquet, file.key, file.version, most_rows), sidecars


def _cut(parquet: ParquetInput, key: str, version: int, most_rows: int) -> list[CheckpointPart]:
    """Cut a file into runs of row groups; without files in its schema it has no part."""
    if not set(parquet.schema.names) & set(_FILES):
        return []
    starts, rows = [0], 0
    for group, count in enumerate(parquet.groups):
        if rows and rows + count > most_rows:
            starts.append(group)
            rows = 0
        rows += count
    ends = pairwise([*starts, len(parquet.groups)])
    return [
        CheckpointPart(key, version, (start, end), sum(parquet.groups[start:end]))
        for start, end in ends
        if start < end
    ]


def _head_of(store: ObjectStore, file: LogFile) -> Iterator[Action]:
    if _is_json(file.key):
        yield from _checked(json_actions(store, file.key, file.version), file.version)
        return
    with _opened(store, file.key) as parquet:
        yield from _checked(_actions(parquet, (*HEAD, *_V2)), file.version)


def _actions(parquet: ParquetInput, kinds: Sequence[str]) -> Iterator[Action]:
    columns = [name for name in parquet.schema.names if name in kinds]
    for group in range(len(parquet.groups)) if columns else ():
        for batch in parquet.batches(group, columns):
            yield from head_actions(batch)


def _checked(actions: Iterable[Action], version: int) -> Iterator[Action]:
    """Pass actions on; a V2 checkpoint that names another version is another one."""
    for action in actions:
        if isinstance(action, CheckpointMetadata) and action.version != version:
            raise ValueError(f"it is the checkpoint of version {action.version}")
        yield action


@contextmanager
def _opened(store: ObjectStore, key: str) -> Iterator[ParquetInput]:
    with open_parquet(store, key) as parquet:
        require_sound_names(parquet.schema)
        yield parquet


def _is_json(key: str) -> bool:
    return key.endswith(".json")


def _sidecar_key(path: str) -> str:
    """Return where a sidecar lies; the protocol knows one folder, and names only."""
    name = unquote(path)
    if not name or "/" in name or "\\" in name or name in {".", ".."}:
        raise ValueError(f"the sidecar {path} is not a name in {_SIDECARS}")
    return _SIDECARS + name


def _json_files(store: ObjectStore, part: CheckpointPart) -> Iterator[StateBatch]:
    adds: list[Add] = []
    removes: list[Remove] = []
    for action in json_actions(store, part.key, part.version):
        if isinstance(action, Add):
            adds.append(action)
        elif isinstance(action, Remove):
            removes.append(action)
        if len(adds) + len(removes) >= _JSON_ROWS:
            yield StateBatch(rows_of_adds(adds), rows_of_removes(removes))
            adds, removes = [], []
    if adds or removes:
        yield StateBatch(rows_of_adds(adds), rows_of_removes(removes))


def _group_files(parquet: ParquetInput, group: int) -> Iterator[StateBatch]:
    """Yield the files of a row group; typed twins are read only from where a text is missing."""
    texts, twins, needed = _file_columns(parquet)
    done = 0
    if not needed:
        for batch in parquet.batches(group, texts):
            structs = _structs(batch)
            if twins and "add" in structs and lacks_text(structs["add"]):
                break
            yield _state(structs)
            done += batch.num_rows
        else:
            return
    for batch in parquet.batches(group, [*texts, *twins]):
        skipped = min(done, batch.num_rows)
        done -= skipped
        if skipped < batch.num_rows:
            yield _state(_structs(batch.slice(skipped)))


def _file_columns(parquet: ParquetInput) -> tuple[list[str], list[str], bool]:
    """Return the columns of files, the typed twins beside, and whether a text has no column."""
    texts: list[str] = []
    twins: list[str] = []
    needed = False
    for kind in parquet.schema.names:
        if kind not in _FILES:
            continue
        fields = _field_names(parquet.schema.field(kind))
        texts += [f"{kind}.{name}" for name in fields if name not in PARSED.values()]
        if kind == "add":
            twins = [f"{kind}.{name}" for name in fields if name in PARSED.values()]
            needed = any(p in fields and text not in fields for text, p in PARSED.items())
    return texts, twins, needed


def _field_names(field: pa.Field) -> list[str]:
    if not pa.types.is_struct(field.type):
        raise TypeError(f"`{field.name}` has the type {field.type}")
    names = [inner.name for inner in field.type]
    if "path" not in names:
        raise ValueError(f"`{field.name}` has no column path")
    return names


def _structs(batch: pa.RecordBatch) -> dict[str, pa.StructArray]:
    columns = zip(batch.schema.names, batch.columns, strict=True)
    return {name: present(column, name) for name, column in columns}


def _state(structs: Mapping[str, pa.StructArray]) -> StateBatch:
    adds, removes = structs.get("add"), structs.get("remove")
    return StateBatch(
        _none(ADD_SCHEMA) if adds is None else add_rows(adds),
        _none(REMOVE_SCHEMA) if removes is None else remove_rows(removes),
    )


def _none(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)
