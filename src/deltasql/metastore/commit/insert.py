"""Under the lock, after the checks: write one version's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from deltasql.crash import crash_point
from deltasql.database.port import Database, DbTransaction
from deltasql.errors import InvalidCommitError
from deltasql.metastore.commit.encode import EncodedCommit, compress, insert_chunks
from deltasql.metastore.commit.request import CommitRequest
from deltasql.metastore.stats_index import StatsColumn, index_rows
from deltasql.protocol.actions import (
    Add,
    DeletionVector,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Txn,
    file_hashes,
)
from deltasql.protocol.codec import dump_values, to_json_object
from deltasql.protocol.schema.columns import Leaf
from deltasql.protocol.stats.parse import FileStats, parse_stats

# An append of more files is a transaction of its own.
SMALL = 50


@dataclass(frozen=True, slots=True)
class VersionPlan:
    """Everything that the rows of one version are made of.

    Without a `version` the statement that writes the rows takes the next one itself.
    """

    request: CommitRequest
    commit: EncodedCommit
    version: int | None
    timestamp: int
    transaction_id: str | None
    file_ids: Sequence[int]
    indexed: Sequence[tuple[StatsColumn, Leaf]]
    new_partitions: Sequence[str]
    supersede: bool


def insert_version(tx: DbTransaction, database: Database, plan: VersionPlan) -> None:
    """Write the version, its files and their index, its metadata and its place in the queue."""
    _end_files(tx, database, plan)
    _insert_metadata(tx, plan)
    crash_point("after-files")
    _insert_partitions(tx, plan)
    _insert_files(tx, [plan])
    _record_version(tx, plan)
    crash_point("after-version-row")
    _empty_partitions(tx, plan)


def _empty_partitions(tx: DbTransaction, plan: VersionPlan) -> None:
    """Note which combinations of partition values lost their last file: filters pass over them."""
    if not plan.commit.removes or not any(
        one.partition_values != {} for one in plan.commit.removes
    ):
        return
    place = {"table_id": plan.request.table_id, "version": plan.version}
    if tx.fetch_all("empty_partitions", **place):
        tx.execute("note_emptied_partitions", **place)


def insert_appends(tx: DbTransaction, database: Database, plans: Sequence[VersionPlan]) -> None:
    """Write versions of one table that only add files, all by the same statements."""
    if not plans:
        return
    table_id, last = plans[0].request.table_id, plans[-1]
    partitions = sorted({text for plan in plans for text in plan.new_partitions})
    if partitions:
        tx.execute_many("insert_partitions", {"partition_values": partitions}, table_id=table_id)
    _insert_files(tx, plans)
    crash_point("after-group-files")
    versions = [version_columns(plan) | {"payload": _store_payload(tx, plan)} for plan in plans]
    columns: dict[str, Sequence[Any]] = {
        name: [row[name] for row in versions] for name in versions[0] if name != "table_id"
    }
    tx.execute_many("insert_versions", columns, table_id=table_id)
    if not database.dialect.has_writing_ctes:
        queued = {name: columns[name] for name in ("version", "digest", "committed_at")}
        tx.execute_many("insert_mirror_rows", queued, table_id=table_id)
    tx.execute(
        "advance_table", table_id=table_id, version=last.version, ict=last.timestamp, **_head(last)
    )


def partition_text(add: Add) -> str:
    """Return an add's partition values as the catalog spells them."""
    return dump_values(add.partition_values)


def _end_files(tx: DbTransaction, database: Database, plan: VersionPlan) -> None:
    removes = plan.commit.removes
    if removes:
        _move(tx, database, plan, _ending(removes), "remove")
        moved = tx.fetch_all("count_ended", table_id=plan.request.table_id, version=plan.version)[
            0
        ][0]
        if moved != len(removes):
            _refuse_unknown(tx, plan)
    if plan.supersede and plan.commit.adds:
        adds = plan.commit.adds
        nothing = [None] * len(adds)
        columns: dict[str, Sequence[Any]] = {
            "file_key": _file_keys(adds),
            "deletion_timestamp": nothing,
            "remove_data_change": nothing,
            "extended_file_metadata": nothing,
        }
        _move(tx, database, plan, columns, "replaced")


def _ending(removes: Sequence[Remove]) -> dict[str, Sequence[Any]]:
    return {
        "file_key": _file_keys(removes),
        "deletion_timestamp": [remove.deletion_timestamp for remove in removes],
        "remove_data_change": [remove.data_change for remove in removes],
        "extended_file_metadata": [remove.extended_file_metadata for remove in removes],
    }


def _move(
    tx: DbTransaction,
    database: Database,
    plan: VersionPlan,
    columns: dict[str, Sequence[Any]],
    by: str,
) -> None:
    shared = {"table_id": plan.request.table_id, "version": plan.version, "removal": by}
    if database.dialect.has_writing_ctes:
        tx.execute_many("end_files", columns, **shared)
        return
    tx.execute_many("end_files_copy", columns, **shared)
    keys = {"file_key": columns["file_key"]}
    tx.execute_many("end_files_delete", keys, table_id=plan.request.table_id)


def _refuse_unknown(tx: DbTransaction, plan: VersionPlan) -> None:
    """Refuse a commit that removes what is not there."""
    place = {"table_id": plan.request.table_id, "version": plan.version}
    ended = {key for (key,) in tx.fetch_all("removed_keys", **place)}
    removes = plan.commit.removes
    keys = _file_keys(removes)
    missing = next(one for one, key in zip(removes, keys, strict=True) if key not in ended)
    raise InvalidCommitError(
        f"The commit cannot be made: {missing.path} is not part of the table.",
        table_id=plan.request.table_id,
        path=missing.path,
    )


def _insert_partitions(tx: DbTransaction, plan: VersionPlan) -> None:
    if plan.new_partitions:
        columns = {"partition_values": plan.new_partitions}
        tx.execute_many("insert_partitions", columns, table_id=plan.request.table_id)


def _insert_files(tx: DbTransaction, plans: Sequence[VersionPlan]) -> None:
    """Write the files of versions of one table, and their rows in the index."""
    adds = [add for plan in plans for add in plan.commit.adds]
    if not adds:
        return
    files = [file_id for plan in plans for file_id in plan.file_ids]
    versions = [plan.version for plan in plans for _ in plan.commit.adds]
    stats = parsed_stats(adds)
    columns = file_columns(adds, files, stats) | {"added_version": versions}
    tx.execute_many("insert_files", columns, table_id=plans[0].request.table_id)
    indexed = plans[0].indexed
    rows = index_rows(stats, files, indexed)
    if rows.num["file_id"]:
        tx.execute_many("insert_stats_num", dict(rows.num))
    if rows.text["file_id"]:
        tx.execute_many("insert_stats_text", dict(rows.text))


def parsed_stats(adds: Sequence[Add]) -> list[FileStats | None]:
    """Return the statistics of adds; what cannot be read is None."""
    return [parse_stats(add.stats) for add in adds]


def file_columns(
    adds: Sequence[Add], file_ids: Sequence[int], stats: Sequence[FileStats | None]
) -> dict[str, Sequence[Any]]:
    """Return the columns of dl_files for these adds."""
    hashes = [_hashes(add) for add in adds]
    return {
        "file_id": list(file_ids),
        "file_key": [file_key for file_key, _ in hashes],
        "path_hash": [path_hash for _, path_hash in hashes],
        "path": [add.path for add in adds],
        "dv_id": [add.dv_id for add in adds],
        "size": [add.size for add in adds],
        "modification_time": [add.modification_time for add in adds],
        "partition_values": [partition_text(add) for add in adds],
        "stats": [add.stats for add in adds],
        "num_records": [None if one is None else one.num_records for one in stats],
        "tags": [_json(add.tags) for add in adds],
        "deletion_vector": [_vector(add.deletion_vector) for add in adds],
        "base_row_id": [add.base_row_id for add in adds],
        "default_row_commit_version": [add.default_row_commit_version for add in adds],
        "clustering_provider": [add.clustering_provider for add in adds],
        "data_change": [add.data_change for add in adds],
        "unknown_fields": [_json(add.extra) for add in adds],
    }


def _file_keys(files: Sequence[Add | Remove]) -> list[str]:
    return [_hashes(file)[0] for file in files]


def _hashes(file: Add | Remove) -> tuple[str, str | None]:
    """Return what the file is known by, as the hexadecimal text in which statements take it."""
    file_key, path_hash = file_hashes(file.path, file.dv_id)
    return file_key.hex(), None if path_hash is None else path_hash.hex()


def _json(values: dict[str, Any] | None) -> str | None:
    return None if values is None else dump_values(values)


def _vector(vector: DeletionVector | None) -> str | None:
    if vector is None:
        return None
    plain = msgspec.to_builtins(vector)
    plain.update(plain.pop("~extra", None) or {})
    return dump_values(plain)


def _insert_metadata(tx: DbTransaction, plan: VersionPlan) -> None:
    table_id, version = plan.request.table_id, plan.version
    for action in plan.commit.actions:
        shared = {"table_id": table_id, "version": version}
        match action:
            case Metadata():
                tx.execute("insert_metadata", **shared, **metadata_columns(action))
            case Protocol():
                tx.execute("insert_protocol", **shared, **protocol_columns(action))
            case DomainMetadata():
                tx.execute(
                    "insert_domain",
                    **shared,
                    domain=action.domain,
                    configuration=action.configuration,
                    removed=action.removed,
                )
            case Txn():
                values = {
                    "app_id": action.app_id,
                    "txn_version": action.version,
                    "last_updated": action.last_updated,
                }
                tx.execute("insert_txn", **shared, **values)


def metadata_columns(action: Metadata) -> dict[str, Any]:
    """Return the columns of dl_metadata_updates."""
    return {
        "metadata_id": action.id,
        "name": action.name,
        "description": action.description,
        "format_provider": action.format.provider,
        "schema_string": action.schema_string,
        "partition_columns": msgspec.json.encode(action.partition_columns).decode(),
        "configuration": dump_values(action.configuration),
        "created_time": action.created_time,
        "action": dump_values(to_json_object(action)),
    }


def protocol_columns(action: Protocol) -> dict[str, Any]:
    """Return the columns of dl_protocol_updates."""

    def listed(features: list[str] | None) -> str | None:
        return None if features is None else msgspec.json.encode(sorted(features)).decode()

    return {
        "min_reader_version": action.min_reader_version,
        "min_writer_version": action.min_writer_version,
        "reader_features": listed(action.reader_features),
        "writer_features": listed(action.writer_features),
        "action": dump_values(to_json_object(action)),
    }


def _record_version(tx: DbTransaction, plan: VersionPlan) -> None:
    """Write the version, its place in the mirror's queue, and the table's new head."""
    version = version_columns(plan) | {"payload": _store_payload(tx, plan)}
    tx.execute("record_version", **version, **_head(plan))


def _head(plan: VersionPlan) -> dict[str, Any]:
    kinds = {type(action) for action in plan.commit.actions}
    return {
        "metadata_changed": int(Metadata in kinds),
        "protocol_changed": int(Protocol in kinds),
        "state": str(plan.request.state_after),
    }


def _store_payload(tx: DbTransaction, plan: VersionPlan) -> bytes | None:
    packed = compress(plan.commit.payload)
    return insert_chunks(tx, plan.request.table_id, plan.version, packed)


def version_columns(plan: VersionPlan) -> dict[str, Any]:
    """Return the columns of dl_table_versions, but the payload."""
    request, commit = plan.request, plan.commit
    info = commit.info
    return {
        "table_id": request.table_id,
        "version": plan.version,
        "committed_at": plan.timestamp,
        "committer": _text(info.user_name),
        "operation": request.note.operation,
        "operation_params": dump_values(info.operation_parameters or {}),
        "operation_metrics": dump_values(info.operation_metrics or {}),
        "in_commit_timestamp": info.in_commit_timestamp,
        "read_version": info.read_version,
        "is_blind_append": commit.is_blind_append,
        "commit_id": request.commit_id,
        "transaction_id": plan.transaction_id,
        "adds": len(commit.adds),
        "removes": len(commit.removes),
        "actions": len(commit.actions),
        "bytes_added": sum(add.size for add in commit.adds),
        "bytes_removed": sum(remove.size or 0 for remove in commit.removes),
        "user_metadata": _text(info.user_metadata),
        "client": request.note.client,
        "payload_bytes": len(commit.payload),
        "digest": commit.digest,
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
