"""A new table: its first metadata and protocol, and a place that is fit for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from deltasql.catalog.commit_request import CommitNote
from deltasql.errors import (
    BadArgumentError,
    SchemaError,
    TableExistsError,
    UnsafeStoreError,
    UnsupportedFeatureError,
)
from deltasql.log.owner import OWNER_KEY, Owner, read_owner
from deltasql.protocol import features, properties
from deltasql.protocol.actions import Format, Metadata, Protocol
from deltasql.protocol.arrow_schema import from_arrow_schema
from deltasql.protocol.columns import check_names, find_field
from deltasql.protocol.files import LOG_FOLDER, LogFile
from deltasql.protocol.required_features import without_feature_properties
from deltasql.protocol.schema import ArrayType, MapType, StructType, parse_schema, print_schema
from deltasql.storage.port import ObjectStore
from deltasql.storage.selfcheck import StoreVerdict, check_conditional_put


@dataclass(frozen=True, slots=True)
class TableSpec:
    """What a table is to be."""

    name: str
    location: str
    schema: Any
    partition_by: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    description: str | None = None


def first_actions(spec: TableSpec, metadata_id: str, now_ms: int) -> tuple[Protocol, Metadata]:
    """Return the protocol and metadata of a new table.

    Raises:
        SchemaError, BadArgumentError, UnsupportedFeatureError: the table cannot be made.
    """
    schema = to_schema(spec.schema)
    check_names(schema)
    _check_partitioning(schema, spec.partition_by)
    given = dict(spec.properties)
    properties.check(given)
    asked = Metadata(
        id=metadata_id,
        name=spec.name,
        description=spec.description,
        format=Format(),
        schema_string=print_schema(schema),
        partition_columns=list(spec.partition_by),
        configuration={"delta.enableInCommitTimestamps": "true", **given},
        created_time=now_ms,
    )
    protocol = features.new_table_protocol(asked)
    _refuse(protocol)
    kept = without_feature_properties(asked.configuration)
    return protocol, msgspec.structs.replace(asked, configuration=kept)


def creation_note(metadata: Metadata) -> CommitNote:
    """Return the note of a table's first commit, in Delta's words."""
    parameters = {
        "partitionBy": msgspec.json.encode(metadata.partition_columns).decode(),
        "description": metadata.description or "",
        "isManaged": "false",
        "properties": msgspec.json.encode(metadata.configuration).decode(),
    }
    return CommitNote("CREATE TABLE", parameters)


def to_schema(given: Any) -> StructType:
    """Return a Delta schema from one, from its JSON, or from anything with an Arrow schema.

    Raises:
        SchemaError: there is no schema in it, or a type that Delta lacks.
    """
    if isinstance(given, StructType):
        schema = given
    elif isinstance(given, str):
        schema = parse_schema(given)
    elif isinstance(given, pa.Schema):
        schema = from_arrow_schema(given)
    elif hasattr(given, "__arrow_c_schema__"):
        schema = from_arrow_schema(pa.schema(given))
    elif hasattr(given, "schema") and isinstance(given.schema, pa.Schema):
        schema = from_arrow_schema(given.schema)
    else:
        raise SchemaError(f"A {type(given).__name__} holds no schema.")
    if not schema.fields:
        raise SchemaError("A table needs at least one column.")
    return schema


def check_place(store: ObjectStore, roll: str, is_left: Callable[[Owner], bool]) -> None:
    """Refuse a location that holds a Delta log, or a store that would let commits be lost.

    A marker that `is_left` by a create that failed is no log.

    Raises:
        TableExistsError, UnsafeStoreError: says which.
    """
    for info in store.list_from(LOG_FOLDER):
        name = info.key.removeprefix(LOG_FOLDER)
        owner = read_owner(store) if info.key == OWNER_KEY else None
        if LogFile.parse(name) is not None or (owner is not None and not is_left(owner)):
            raise TableExistsError(
                f"There is a Delta log at {store.uri} already ({info.key}).",
                hint="Choose an empty location, or import the table.",
            )
    if check_conditional_put(store, roll) is StoreVerdict.IGNORES:
        raise UnsafeStoreError(
            f"The store of {store.uri} ignores conditions: a commit of another writer could be "
            "overwritten unseen."
        )


def _check_partitioning(schema: StructType, names: Sequence[str]) -> None:
    if len({name.lower() for name in names}) != len(names):
        raise BadArgumentError("A partition column is named twice.")
    for name in names:
        found = find_field(schema, name)
        if found is None or found.name != name:
            raise SchemaError(f"There is no column {name} to partition by.", column=name)
        if isinstance(found.type, StructType | ArrayType | MapType) or found.type.name == "binary":
            raise SchemaError(f"The column {name} of type {found.type.name} cannot partition.")
    if len(names) == len(schema.fields):
        raise SchemaError("At least one column must not be a partition column.")


def _refuse(protocol: Protocol) -> None:
    wanted = features.listed_features(protocol) - features.CREATABLE
    if wanted:
        raise UnsupportedFeatureError(
            f"deltasql does not create tables with: {', '.join(sorted(wanted))}.",
            features=tuple(sorted(wanted)),
        )
