-- Overrides for SQLite. A statement's values are one JSON text; a bulk query selects its rows from
-- `:rows` in it, and `{row.name}` is a value of the row.

-- name: lock_table
select {locked_columns} from dl_tables t where t.table_id = :table_id

-- name: insert_files
insert into dl_files (
    file_id, table_key, file_key, path_hash, path, dv_id, size, modification_time, partition_values,
    stats, num_records, tags, deletion_vector, base_row_id, default_row_commit_version,
    clustering_provider, data_change, added_version, unknown_fields
)
select
    {row.file_id}, {table_key}, unhex({row.file_key}), unhex({row.path_hash}), {row.path},
    {row.dv_id}, {row.size}, {row.modification_time}, {row.partition_values}, {row.stats},
    {row.num_records}, {row.tags}, {row.deletion_vector}, {row.base_row_id},
    {row.default_row_commit_version}, {row.clustering_provider}, {row.data_change},
    {row.added_version}, {row.unknown_fields}
from json_each(:rows) r

-- name: record_version
insert into dl_new_versions (
    table_id, version, committed_at, committer, operation, operation_params, operation_metrics,
    in_commit_timestamp, read_version, is_blind_append, commit_id, transaction_id, adds, removes,
    actions, bytes_added, bytes_removed, user_metadata, client, payload, payload_bytes, digest,
    origin, metadata_changed, protocol_changed, state
) values (
    :table_id, :version, :committed_at, :committer, :operation, :operation_params,
    :operation_metrics, :in_commit_timestamp, :read_version, :is_blind_append, :commit_id,
    :transaction_id, :adds, :removes, :actions, :bytes_added, :bytes_removed, :user_metadata,
    :client, :payload, :payload_bytes, :digest, 'commit', :metadata_changed, :protocol_changed,
    :state
)

-- name: insert_mirror_rows
insert into dl_mirror_status (
    table_id, version, status, json_written, checkpoint_written, digest, retry_count, updated_at
)
select :table_id, {row.version}, 'PENDING', 0, 0, {row.digest}, 0, {row.committed_at}
from json_each(:rows) r

-- Materialized, so that each row is found by its key; else SQLite walks over the whole table.
-- name: remember_commit_tags
with u as materialized (
    select
        {row.version} as version, {row.digest} as digest, {row.size} as size, {row.e_tag} as e_tag
    from json_each(:rows) r
)
update dl_mirror_status as s set object_size = u.size, object_tag = u.e_tag
from u
where s.table_id = :table_id and s.version = u.version and s.digest = u.digest

-- name: remember_file_tags
with u as materialized (
    select {row.key} as key, {row.digest} as digest, {row.e_tag} as e_tag
    from json_each(:rows) r
)
update dl_log_files as f set object_tag = u.e_tag
from u
where f.table_id = :table_id and f.key = u.key and f.digest = u.digest

-- name: end_files_copy
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
    :version, :removal, {row.deletion_timestamp}, {row.remove_data_change},
    {row.extended_file_metadata}
from json_each(:rows) r
cross join dl_files f
where f.table_key = {table_key} and f.file_key = unhex({row.file_key})

-- name: end_files_delete
delete from dl_files
where file_id in (
    select f.file_id
    from json_each(:rows) r
    cross join dl_files f
    where f.table_key = {table_key} and f.file_key = unhex({row.file_key})
)

-- name: removed_keys
select lower(hex(file_key)) from dl_removed_files
where table_key = {table_key} and removed_version = :version and removal = 'remove'

-- name: insert_partitions
insert into dl_partitions (table_key, partition_values)
select {table_key}, {row.partition_values} from json_each(:rows) r where true
on conflict (table_key, partition_values) do update set empty_since = null
where dl_partitions.empty_since is not null

-- name: insert_stats_num
insert into dl_stats_num (stats_key, reach, low, high, file_id)
select
    {row.stats_key}, {row.reach}, coalesce({row.low}, -9e999), coalesce({row.high}, 9e999),
    {row.file_id}
from json_each(:rows) r

-- name: insert_stats_text
insert into dl_stats_text (stats_key, low, high, file_id)
select {row.stats_key}, {row.low}, {row.high}, {row.file_id} from json_each(:rows) r

-- name: schema_version_table
create table if not exists dl_schema_version (
    version integer primary key, name text not null, applied_at integer not null
) strict

-- name: has_schema_version
select count(*) from sqlite_master where type = 'table' and name = 'dl_schema_version'

-- name: files_at
select {columns} from dl_files f {live_hint}
where f.table_key = {table_key} and f.added_version <= :version {live_filter}
union all
select {columns} from dl_removed_files f
where f.table_key = {table_key} and f.removed_version > :version and f.added_version <= :version {filter}

-- The order belongs to the union itself: only then SQLite merges its two sides, and sorts none of the
-- first, which comes in the order of its index.
-- name: in_order
select {columns} from (
    select {inner} from dl_files f indexed by dl_files_added
    where f.table_key = {table_key} and f.added_version <= :version
    union all
    select {inner} from dl_removed_files f
    where f.table_key = {table_key} and f.removed_version > :version and f.added_version <= :version
    order by added_version, file_id
) f

-- name: chosen_files
f.file_id in (
    {chosen}
)

-- name: prune_num
select s.file_id from dl_stats_num s
where s.stats_key = {stats_key} and s.low <= coalesce(:{high}, 9e999)
    and s.high >= coalesce(:{low}, -9e999)

-- name: prune_reach
select s.file_id from dl_stats_num s
where s.stats_key = {stats_key} and s.reach = {reach} and s.low >= coalesce(:{least}, -9e999)
    and s.low <= coalesce(:{high}, 9e999) and s.high >= coalesce(:{low}, -9e999)

-- name: prune_text
select s.file_id from dl_stats_text s
where s.stats_key = {stats_key} and s.low <= :{high} and (s.high is null or s.high >= :{low})

-- name: prune_text_from
select s.file_id from dl_stats_text s
where s.stats_key = {stats_key} and (s.high is null or s.high >= :{low})

-- name: prune_partitions
and f.partition_values in (select p.value from json_each(:{partitions}) p)

-- name: of_keys
and (f.file_key in (select unhex(k.value) from json_each(:keys) k)
    or f.path_hash in (select unhex(k.value) from json_each(:keys) k))

-- name: tables_around
-- By the index on places, by the index on names, and the few whose place is a symbolic link.
select {table_columns} from dl_tables t
where
    t.location_key in (select k.value from json_each(:keys) k)
    and t.state not in ('deleted', 'detached')
union all
select {table_columns} from dl_tables t
where
    t.location_key >= :below_key and t.location_key < :end_key
    and t.state not in ('deleted', 'detached')
union all
select {table_columns} from dl_tables t
where t.namespace = :namespace and t.name = :name and t.state <> 'deleted'
union all
select {table_columns} from dl_tables t
where
    t.location <> t.location_key and t.state not in ('deleted', 'detached')
    and (
        t.location in (select k.value from json_each(:places) k)
        or (t.location >= :below and t.location < :end)
    )

-- name: file_id_part
and f.file_id >= :low_id and f.file_id < :high_id

-- name: files_state
-- The first and the last number by age: near enough to share the rows out evenly. Commits leave
-- the rows of a version as they are; a recovery or a shorter history may not.
select
    (
        select f.file_id from dl_files f
        where f.table_key = {table_key} order by f.added_version, f.file_id limit 1
    ),
    (
        select f.file_id from dl_files f
        where f.table_key = {table_key} order by f.added_version desc, f.file_id desc limit 1
    ),
    t.history_floor, c.epoch
from dl_catalog c left join dl_tables t on t.table_id = :table_id

-- name: apply_schema_version
insert into dl_schema_version (version, name, applied_at) values (:version, :name, :now)

-- name: schema_versions
select version, name, applied_at from dl_schema_version order by version

-- name: absolute_paths
select path, deletion_vector from dl_files
where table_key <> {table_key}
    and (instr(path, ':/') > 0 or substr(path, 1, 1) = '/' or instr(deletion_vector, '"p"') > 0)
union all
select path, deletion_vector from dl_removed_files
where table_key <> {table_key}
    and (instr(path, ':/') > 0 or substr(path, 1, 1) = '/' or instr(deletion_vector, '"p"') > 0)

-- name: insert_vacuum_marks
insert into dl_vacuum_marks (table_id, key)
select :table_id, {row.key} from json_each(:rows) r where true
on conflict do nothing

-- name: delete_vacuum_marks
delete from dl_vacuum_marks
where table_id = :table_id and key in (select {row.key} from json_each(:rows) r)

-- name: insert_vacuumed
update dl_removed_files set vacuumed_at = :now
where file_id in (select {row.file_id} from json_each(:rows) r) and table_key = {table_key}
    and vacuumed_at is null

-- name: marked_keys
select key from dl_vacuum_marks
where table_id = :table_id and key in (select k.value from json_each(:keys) k)

-- name: live_identities
select path, dv_id from dl_files
where table_key = {table_key} and file_key in (select unhex(k.value) from json_each(:keys) k)
union all
select path, dv_id from dl_files
where table_key = {table_key} and path_hash in (select unhex(k.value) from json_each(:keys) k)

-- name: share_table
select 1 from dl_tables where table_id = :table_id

-- name: database_size
select count.page_count * size.page_size from pragma_page_count() count, pragma_page_size() size

-- name: behind_tables
select
    t.table_id, case when t.namespace = '' then t.name else t.namespace || '.' || t.name end,
    t.location, t.mirrored_through, t.current_version, v.committed_at, s.status, s.retry_count,
    s.last_attempt_at, s.next_attempt_at, s.error_message, t.properties, t.state,
    t.mirror_paused
from dl_tables t
left join dl_table_versions v on v.table_id = t.table_id and v.version = t.mirrored_through + 1
left join dl_mirror_status s on s.table_id = t.table_id and s.version = t.mirrored_through + 1
where t.mirrored_through < t.current_version and t.state in ('active', 'detached', 'conflict')
order by v.committed_at
