"""Names in a checkpoint's schema: a footer has no checksum, so a name may be damaged unseen.

A column of an unknown name is passed over, as the protocol wants. But where a known name is
missing and one that a single flipped bit makes of it stands instead, that is what happened: to
pass it over would lose a deletion vector, or a table's whole list of features.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from deltasql.protocol.actions import (
    Add,
    CheckpointMetadata,
    DeletionVector,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    Remove,
    Sidecar,
    Txn,
)
from deltasql.protocol.checkpoint_files import PARSED

_Names: TypeAlias = Mapping[str, Any]


def _fields(kind: type[msgspec.Struct], **nested: _Names) -> _Names:
    return {field.encode_name: {} for field in msgspec.structs.fields(kind)} | nested


_VECTOR = {**_fields(DeletionVector), "maxRowIndex": {}}
_STATS = ("numRecords", "minValues", "maxValues", "nullCount", "tightBounds")
_TWINS: _Names = {PARSED["partitionValues"]: {}, PARSED["stats"]: {name: {} for name in _STATS}}
_KNOWN: _Names = {
    "add": {**_fields(Add, deletionVector=_VECTOR), **_TWINS},
    "remove": _fields(Remove, deletionVector=_VECTOR),
    "metaData": _fields(Metadata, format=_fields(Format)),
    "protocol": _fields(Protocol),
    "txn": _fields(Txn),
    "domainMetadata": _fields(DomainMetadata),
    "sidecar": _fields(Sidecar),
    "checkpointMetadata": _fields(CheckpointMetadata),
}


def require_sound_names(schema: pa.Schema) -> None:
    """Refuse a schema whose names can only come from damage.

    Raises:
        ValueError: names the column.
    """
    _check(list(schema), _KNOWN)


def _check(fields: Iterable[pa.Field], known: _Names) -> None:
    names = [field.name for field in fields]
    there = set(names)
    if len(there) < len(names):
        raise ValueError("it has two columns of one name")
    missing = [name for name in known if name not in there]
    for field in fields:
        near = [name for name in missing if field.name not in known and _is_near(name, field.name)]
        if near:
            raise ValueError(f"its column {field.name} is a damaged {near[0]}")
        if pa.types.is_struct(field.type):
            _check(list(field.type), known.get(field.name, {}))


def _is_near(name: str, other: str) -> bool:
    """Tell whether one flipped bit turns a name into the other: in a character, or in its length.

    A name that got too short is a beginning of the right one; one that got too long goes on with
    what follows it in the footer, which is no text.
    """
    if len(name) == len(other):
        return sum(mine != its for mine, its in zip(name, other, strict=True)) == 1
    return name.startswith(other) or (other.startswith(name) and not other.isprintable())
