-- Whole versions of a log, loaded in bulk. Rows arrive in temporary tables and go from there to
-- their places; every statement sees one window of versions.

-- name: create_import_versions
create temp table import_versions (
    version bigint, committed_at bigint, committer text, operation text, operation_params text,
    operation_metrics text, in_commit_timestamp bigint, read_version bigint,
    is_blind_append boolean, commit_id text {bytewise}, transaction_id text, adds bigint,
    removes bigint, actions bigint, bytes_added bigint, bytes_removed bigint, user_metadata text,
    payload bytea, payload_bytes bigint, digest text, is_backdated boolean
) {on_commit_drop}

-- name: create_import_files
create temp table import_files (
    file_id bigint, path text {bytewise}, file_key {hash}, path_hash {hash},
    dv_id text {bytewise}, size bigint, modification_time bigint, partition_values text {bytewise}, stats text,
    num_records bigint, tags text, deletion_vector text, base_row_id bigint,
    default_row_commit_version bigint, clustering_provider text, data_change boolean, unknown_fields text,
    added_version bigint, removed_version bigint, removal text, deletion_timestamp bigint,
    remove_data_change boolean, extended_file_metadata boolean, is_first boolean
) {on_commit_drop}

-- name: create_import_endings
create temp table import_endings (
    number bigint, file_id bigint, path text {bytewise}, file_key {hash}, path_hash {hash},
    dv_id text {bytewise}, size bigint, partition_values text {bytewise}, deletion_vector text,
    removed_version bigint, removal text, deletion_timestamp bigint, remove_data_change boolean,
    extended_file_metadata boolean
) {on_commit_drop}

-- name: create_import_txns
create temp table import_txns (
    version bigint, app_id text {bytewise}, txn_version bigint, last_updated bigint
) {on_commit_drop}

-- name: create_import_domains
create temp table import_domains (
    version bigint, domain text {bytewise}, configuration text, removed boolean
) {on_commit_drop}

-- Live files of earlier windows that end in this one.
-- name: create_import_hits
create temp table import_hits (
    number bigint, live_id bigint, removed_version bigint, removal text, deletion_timestamp bigint,
    remove_data_change boolean, extended_file_metadata boolean
) {on_commit_drop}

-- name: import_lock
select t.current_version, t.first_version, t.last_ict, t.state, t.properties, t.namespace, t.name
from dl_tables t where t.table_id = cast(:table_id as {uuid})

-- name: find_import_hits
insert into import_hits
select
    e.number, f.file_id, e.removed_version, e.removal, e.deletion_timestamp, e.remove_data_change,
    e.extended_file_metadata
from import_endings e cross join dl_files f
where f.table_key = {table_key}
    and f.file_key = e.file_key

-- Files that are added again without having been removed, and stay: an index tells of them.
-- name: find_import_superseded
insert into import_hits
select -1, f.file_id, n.added_version, 'replaced', null, null, null
from import_files n cross join dl_files f
where n.is_first and n.removed_version is null and f.table_key = {table_key}
    and f.file_key = n.file_key

-- Files that are added again without having been removed, and end in the same window: they never
-- meet the index.
-- name: find_import_passing
insert into import_hits
select -1, f.file_id, n.added_version, 'replaced', null, null, null
from import_files n cross join dl_files f
where n.is_first and n.removed_version is not null and f.table_key = {table_key}
    and f.file_key = n.file_key

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

-- Removes of files that the log as we have it never added.
-- name: insert_import_unknown
insert into dl_removed_files (
    file_id, table_key, file_key, path_hash, path, dv_id, size, partition_values, deletion_vector,
    removed_version, removal, deletion_timestamp, remove_data_change, extended_file_metadata
)
select
    e.file_id, {table_key}, e.file_key, e.path_hash, e.path, e.dv_id, e.size, e.partition_values,
    e.deletion_vector, e.removed_version, e.removal, e.deletion_timestamp, e.remove_data_change,
    e.extended_file_metadata
from import_endings e where e.number not in (select number from import_hits)

-- name: insert_import_live
insert into dl_files (
    file_id, table_key, file_key, path_hash, path, dv_id, size, modification_time, partition_values,
    stats, num_records, tags, deletion_vector, base_row_id, default_row_commit_version,
    clustering_provider, data_change, added_version, unknown_fields
)
select
    file_id, {table_key}, file_key, path_hash, path, dv_id, size, modification_time, partition_values,
    stats, num_records, tags, deletion_vector, base_row_id, default_row_commit_version,
    clustering_provider, data_change, added_version, unknown_fields
from import_files where removed_version is null

-- name: insert_import_ended
insert into dl_removed_files (
    file_id, table_key, file_key, path_hash, path, dv_id, size, modification_time, partition_values,
    stats, num_records, tags, deletion_vector, base_row_id, default_row_commit_version,
    clustering_provider, data_change, added_version, unknown_fields, removed_version, removal,
    deletion_timestamp, remove_data_change, extended_file_metadata
)
select
    file_id, {table_key}, file_key, path_hash, path, dv_id, size, modification_time, partition_values,
    stats, num_records, tags, deletion_vector, base_row_id, default_row_commit_version,
    clustering_provider, data_change, added_version, unknown_fields, removed_version, removal,
    deletion_timestamp, remove_data_change, extended_file_metadata
from import_files where removed_version is not null

-- name: insert_import_partitions
insert into dl_partitions (table_key, partition_values)
select distinct {table_key}, partition_values from import_files
where added_version is not null
on conflict (table_key, partition_values) do update set empty_since = null
where dl_partitions.empty_since is not null

-- A token that another version of the table has already gives way to one of our own.
-- name: insert_import_versions
insert into dl_table_versions (
    table_id, version, committed_at, committer, operation, operation_params, operation_metrics,
    in_commit_timestamp, read_version, is_blind_append, commit_id, transaction_id, adds, removes,
    actions, bytes_added, bytes_removed, user_metadata, payload, payload_bytes, digest, origin,
    is_backdated
)
select
    cast(:table_id as {uuid}), v.version, v.committed_at, v.committer, v.operation,
    v.operation_params, v.operation_metrics, v.in_commit_timestamp, v.read_version,
    v.is_blind_append,
    case when v.turn > 1 or exists (
        select 1 from dl_table_versions o
        where o.table_id = cast(:table_id as {uuid}) and o.commit_id = v.commit_id
    ) then 'import-' || v.version || '-' || substr(v.digest, 1, 16) else v.commit_id end,
    v.transaction_id, v.adds, v.removes, v.actions, v.bytes_added, v.bytes_removed,
    v.user_metadata, v.payload, v.payload_bytes, v.digest, 'import', v.is_backdated
from (
    select i.*, row_number() over (partition by i.commit_id order by i.version) as turn
    from import_versions i
) v
order by v.version

-- name: insert_import_mirrored
insert into dl_mirror_status (
    table_id, version, status, json_written, checkpoint_written, digest, retry_count,
    last_attempt_at, updated_at
)
select
    cast(:table_id as {uuid}), version, 'SUCCESS', {true}, {false}, digest, 0,
    {time:now}, {time:now}
from import_versions

-- name: insert_import_txns
insert into dl_txn_actions (table_id, app_id, version, txn_version, last_updated)
select cast(:table_id as {uuid}), app_id, version, txn_version, last_updated from import_txns

-- name: insert_import_domains
insert into dl_domain_metadata (table_id, domain, version, configuration, removed)
select cast(:table_id as {uuid}), domain, version, configuration, removed from import_domains

-- name: advance_import
update dl_tables set
    current_version = cast(:version as bigint),
    last_ict = cast(:ict as bigint),
    metadata_version = coalesce(cast(:metadata_version as bigint), metadata_version),
    protocol_version = coalesce(cast(:protocol_version as bigint), protocol_version),
    mirrored_through = cast(:version as bigint),
    properties = :properties
where table_id = cast(:table_id as {uuid})

-- name: count_import
select
    (select count(*) from import_versions i join dl_table_versions v
        on v.table_id = cast(:table_id as {uuid}) and v.version = i.version
        and v.digest = i.digest),
    (select count(*) from import_hits)

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

-- The statistics of files that came in bulk. A column's rows arrive before the column counts.
-- name: create_import_stats_num
create temp table import_stats_num (
    stats_key integer, reach integer, low double precision, high double precision, file_id bigint
) {on_commit_drop}

-- name: create_import_stats_text
create temp table import_stats_text (
    stats_key integer, low text {bytewise}, high text {bytewise}, file_id bigint
) {on_commit_drop}

-- name: insert_import_stats_num
insert into dl_stats_num (stats_key, reach, low, high, file_id)
select stats_key, reach, low, high, file_id from import_stats_num
order by stats_key, reach, low

-- name: insert_import_stats_text
insert into dl_stats_text (stats_key, low, high, file_id)
select stats_key, low, high, file_id from import_stats_text order by stats_key, low

-- Statistics of a megabyte bound nothing that is worth their room: such a file is unbounded.
-- name: live_stats
select file_id, case when octet_length(stats) <= 1000000 then stats end as stats
from dl_files where table_key = {table_key} order by file_id

-- name: drop_filling_num
delete from dl_stats_num where stats_key in (
    select c.stats_key from dl_stats_columns c
    where c.table_key = {table_key} and c.since_version = cast(:never as bigint)
)

-- name: drop_filling_text
delete from dl_stats_text where stats_key in (
    select c.stats_key from dl_stats_columns c
    where c.table_key = {table_key} and c.since_version = cast(:never as bigint)
)

-- name: drop_filling_columns
delete from dl_stats_columns
where table_key = {table_key} and since_version = cast(:never as bigint)

-- name: end_filling
update dl_stats_columns set since_version = cast(:version as bigint), is_whole = {true}
where table_key = {table_key} and since_version = cast(:never as bigint)

-- name: skip_lost_commit
update dl_tables set log_floor = first_version + 1
where table_id = cast(:table_id as {uuid}) and log_floor = first_version and exists (
    select 1 from dl_table_versions v
    where v.table_id = dl_tables.table_id and v.version = dl_tables.first_version
        and v.payload_bytes = 0
)
