-- Whole versions of a log, loaded in bulk, straight to their tables. What concerns files from before
-- a segment comes through small temporary tables.

-- name: create_import_removes
create temp table import_removes (
    number bigint, file_key {hash}, removed_version bigint, deletion_timestamp bigint,
    remove_data_change boolean, extended_file_metadata boolean
) {on_commit_drop}

-- name: create_import_adds
create temp table import_adds (file_key {hash}, version bigint) {on_commit_drop}

-- name: create_import_hits
create temp table import_hits (
    number bigint, live_id bigint, removed_version bigint, removal text, deletion_timestamp bigint,
    remove_data_change boolean, extended_file_metadata boolean
) {on_commit_drop}

-- name: create_import_partitions
create temp table import_partitions (partition_values text {bytewise}) {on_commit_drop}

-- name: create_import_tokens
create temp table import_tokens (commit_id text {bytewise}) {on_commit_drop}

-- What is read beside the lock is from before the wait for it, unless it stands in the locked row.
-- name: import_lock
select
    t.table_key, t.current_version, t.first_version, t.last_ict, t.state, t.properties, t.namespace,
    t.name
from dl_tables t where t.table_id = cast(:table_id as {uuid}) {for_no_key_update}

-- name: set_import_segment
insert into dl_imports (table_id, segment)
values (cast(:table_id as {uuid}), cast(:segment as text))
on conflict (table_id) do update set segment = excluded.segment

-- name: clear_import_segment
update dl_imports set segment = null where table_id = cast(:table_id as {uuid})

-- name: set_import_parts
insert into dl_imports (table_id, checkpoint, checkpoint_parts)
values (cast(:table_id as {uuid}), :checkpoint, :parts)
on conflict (table_id) do update set
    checkpoint = excluded.checkpoint, checkpoint_parts = excluded.checkpoint_parts

-- name: import_progress
select segment, checkpoint, checkpoint_parts from dl_imports
where table_id = cast(:table_id as {uuid})

-- name: set_import_claim
insert into dl_imports (table_id, claim_version, claim)
values (cast(:table_id as {uuid}), :version, :claim)
on conflict (table_id) do update set
    claim_version = excluded.claim_version, claim = excluded.claim

-- name: import_claim
select claim_version, claim from dl_imports
where table_id = cast(:table_id as {uuid}) and claim_version is not null

-- name: end_import
delete from dl_imports where table_id = cast(:table_id as {uuid})

-- Files of a segment whose importer was killed: its versions are not there.
-- name: delete_unfinished_files
delete from dl_files where table_key = {table_key} and added_version > :version

-- name: delete_unfinished_removed_files
delete from dl_removed_files where table_key = {table_key} and removed_version > :version

-- Newer windows may have added the same file again.
-- name: find_import_removed
insert into import_hits
select
    r.number, f.file_id, r.removed_version, 'remove', r.deletion_timestamp, r.remove_data_change,
    r.extended_file_metadata
from import_removes r cross join dl_files f
where f.table_key = {table_key} and f.file_key = r.file_key and f.added_version < r.removed_version

-- Files of before the segment that it adds again without a remove.
-- name: find_import_replaced
insert into import_hits
select -1, f.file_id, n.version, 'replaced', null, null, null
from import_adds n cross join dl_files f
where f.table_key = {table_key} and f.file_key = n.file_key and f.added_version < n.version

-- name: import_hits
select number from import_hits

-- name: end_import_hits
insert into dl_removed_files (
    file_id, table_key, file_key, path_hash, path, dv_id, size, modification_time, partition_values,
    stats, num_records, tags, deletion_vector, base_row_id, default_row_commit_version,
    clustering_provider, data_change, added_version, unknown_fields, removed_version, removal,
    deletion_timestamp, remove_data_change, extended_file_metadata
)
select
    f.file_id, f.table_key, f.file_key, f.path_hash, f.path, f.dv_id, f.size, f.modification_time, f.partition_values,
    f.stats, f.num_records, f.tags, f.deletion_vector, f.base_row_id, f.default_row_commit_version,
    f.clustering_provider, f.data_change, f.added_version, f.unknown_fields,
    h.removed_version, h.removal, h.deletion_timestamp, h.remove_data_change,
    h.extended_file_metadata
from import_hits h cross join dl_files f where f.file_id = h.live_id

-- name: delete_import_hits
delete from dl_files where file_id in (select live_id from import_hits)

-- name: insert_import_partitions
insert into dl_partitions (table_key, partition_values)
select {table_key}, partition_values from import_partitions where true
on conflict (table_key, partition_values) do update set empty_since = null
where dl_partitions.empty_since is not null

-- A load looks at all combinations of its table, a commit only at those that it removed files of.
-- name: empty_loaded_partitions
update dl_partitions as p set empty_since = :version
where p.table_key = {table_key} and p.empty_since is null and p.partition_values <> '{}'
    and not exists (
        select 1 from dl_files f
        where f.table_key = p.table_key and f.partition_values = p.partition_values
    )
returning partition_values

-- name: import_tokens_taken
select v.commit_id from import_tokens i join dl_table_versions v
    on v.table_id = cast(:table_id as {uuid}) and v.commit_id = i.commit_id

-- name: count_versions
select count(*) from dl_table_versions
where table_id = cast(:table_id as {uuid}) and version >= :first and version <= :last

-- name: advance_import
update dl_tables set
    current_version = cast(:version as bigint),
    last_ict = cast(:ict as bigint),
    metadata_version = coalesce(cast(:metadata_version as bigint), metadata_version),
    protocol_version = coalesce(cast(:protocol_version as bigint), protocol_version),
    mirrored_through = case
        when mirrored_through >= current_version then cast(:version as bigint)
        else mirrored_through
    end,
    properties = :properties
where table_id = cast(:table_id as {uuid})

-- An import that is given up leaves nothing.
-- name: erase_versions
delete from dl_table_versions where table_id = cast(:table_id as {uuid})

-- name: erase_chunks
delete from dl_payload_chunks where table_id = cast(:table_id as {uuid})

-- name: erase_metadata
delete from dl_metadata_updates where table_id = cast(:table_id as {uuid})

-- name: erase_protocols
delete from dl_protocol_updates where table_id = cast(:table_id as {uuid})

-- name: erase_domains
delete from dl_domain_metadata where table_id = cast(:table_id as {uuid})

-- name: erase_txn_actions
delete from dl_txn_actions where table_id = cast(:table_id as {uuid})

-- name: erase_table
delete from dl_tables where table_id = cast(:table_id as {uuid}) and state = 'importing'

-- name: table_by_location
select {table_columns} from dl_tables t
where t.location_key = :location_key and t.state not in ('deleted', 'detached')

-- name: count_native_versions
select count(*) from dl_table_versions
where table_id = cast(:table_id as {uuid}) and origin <> 'import'

-- name: move_table
update dl_tables set namespace = :namespace, name = :name, location_key = :location_key
where table_id = cast(:table_id as {uuid})

-- From when to when each file was live; what its add said, for those that are live at the end.
-- name: file_intervals
select
    path, dv_id, size, added_version, cast(null as bigint) as removed_version, stats,
    partition_values, modification_time
from dl_files where table_key = {table_key}
union all
select
    path, dv_id, size, added_version, removed_version,
    case when removed_version > :head then stats end,
    case when removed_version > :head then partition_values end,
    case when removed_version > :head then modification_time end
from dl_removed_files
where table_key = {table_key} and removed_version > :since
    and added_version is not null

-- Statistics of a megabyte bound nothing that is worth their room: such a file is unbounded.
-- name: live_stats
select file_id, case when octet_length(stats) <= 1000000 then stats end as stats
from dl_files where table_key = {table_key} and added_version <= :version order by file_id

-- name: drop_column_num
delete from dl_stats_num where stats_key = :stats_key

-- name: drop_column_text
delete from dl_stats_text where stats_key = :stats_key

-- name: drop_column
delete from dl_stats_columns where stats_key = :stats_key

-- name: end_filling
update dl_stats_columns set since_version = cast(:version as bigint), is_whole = {true}
where stats_key = :stats_key

-- name: skip_lost_commit
update dl_tables set log_floor = first_version + 1
where table_id = cast(:table_id as {uuid}) and log_floor = first_version and exists (
    select 1 from dl_table_versions v
    where v.table_id = dl_tables.table_id and v.version = dl_tables.first_version
        and v.payload_bytes = 0
)


