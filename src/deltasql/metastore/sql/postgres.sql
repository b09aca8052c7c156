-- Overrides for PostgreSQL. Bulk queries take one array per column.

-- Behind a wait for the lock PostgreSQL reads the locked row anew and nothing else: whatever a
-- commit is checked against must stand in that row.
-- name: lock_table
select {table_columns}, t.epoch, {now} from dl_tables t where t.table_id = :table_id
for no key update

-- name: lock_all_tables
lock table dl_tables in exclusive mode

-- name: insert_files
insert into dl_files (
    file_id, table_key, file_key, path_hash, path, dv_id, size, modification_time, partition_values,
    stats, num_records, tags, deletion_vector, base_row_id, default_row_commit_version,
    clustering_provider, data_change, added_version, unknown_fields
)
select
    u.file_id, {table_key}, u.file_key, u.path_hash, u.path, u.dv_id, u.size, u.modification_time,
    u.partition_values, u.stats, u.num_records, u.tags, u.deletion_vector, u.base_row_id,
    u.default_row_commit_version, u.clustering_provider, u.data_change, u.added_version,
    u.unknown_fields
from unnest(
    :file_id::bigint[], :file_key::uuid[], :path_hash::uuid[], :path::text[], :dv_id::text[],
    :size::bigint[], :modification_time::bigint[], :partition_values::text[], :stats::text[],
    :num_records::bigint[], :tags::text[], :deletion_vector::text[], :base_row_id::bigint[],
    :default_row_commit_version::bigint[], :clustering_provider::text[], :data_change::boolean[],
    :unknown_fields::text[], :added_version::bigint[]
) u (
    file_id, file_key, path_hash, path, dv_id, size, modification_time, partition_values, stats,
    num_records, tags, deletion_vector, base_row_id, default_row_commit_version,
    clustering_provider, data_change, unknown_fields, added_version
)

-- name: append
select {table_columns}, a.digest
from dl_append(
    :table_id::uuid, :epoch::bigint, :metadata_version::bigint, :protocol_version::bigint,
    :partitions_emptied::bigint, :ceiling::bigint, :pieces::text[], :has_own_time::boolean, :committer::text,
    :operation::text, :operation_params::text, :operation_metrics::text, :read_version::bigint,
    :commit_id::text, :user_metadata::text, :client::text, :file_id::bigint[], :file_key::uuid[],
    :path::text[], :size::bigint[], :modification_time::bigint[], :partition_values::text[],
    :stats::text[], :num_records::bigint[], :num_stats_key::integer[], :num_reach::smallint[], :num_low::float8[],
    :num_high::float8[], :num_file_id::bigint[], :text_stats_key::integer[], :text_low::text[],
    :text_high::text[], :text_file_id::bigint[], :partitions::text[]
) a, lateral (select (a.changed).*) t

-- name: record_version
with version as (
    insert into dl_table_versions (
        table_id, version, committed_at, committer, operation, operation_params,
        operation_metrics, in_commit_timestamp, read_version, is_blind_append, commit_id,
        transaction_id, adds, removes, actions, bytes_added, bytes_removed, user_metadata,
        client, payload, payload_bytes, digest, origin
    ) values (
        :table_id, :version, :committed_at, :committer, :operation, :operation_params,
        :operation_metrics, :in_commit_timestamp, :read_version, :is_blind_append, :commit_id,
        :transaction_id, :adds, :removes, :actions, :bytes_added, :bytes_removed, :user_metadata,
        :client, :payload, :payload_bytes, :digest, 'commit'
    )
),
queue as (
    insert into dl_mirror_status (
        table_id, version, status, json_written, checkpoint_written, digest, retry_count, updated_at
    ) values (
        :table_id, :version, 'PENDING', false, false, :digest, 0,
        to_timestamp(:committed_at / 1000.0)
    )
)
update dl_tables set
    current_version = :version,
    last_ict = :committed_at,
    metadata_version = case when :metadata_changed = 1 then :version else metadata_version end,
    protocol_version = case when :protocol_changed = 1 then :version else protocol_version end,
    state = :state
where table_id = :table_id

-- name: insert_versions
with version as (
    insert into dl_table_versions (
        table_id, version, committed_at, committer, operation, operation_params,
        operation_metrics, in_commit_timestamp, read_version, is_blind_append, commit_id,
        transaction_id, adds, removes, actions, bytes_added, bytes_removed, user_metadata,
        client, payload, payload_bytes, digest, origin
    )
    select :table_id::uuid, u.*, 'commit'
    from unnest(
        :version::bigint[], :committed_at::bigint[], :committer::text[], :operation::text[],
        :operation_params::text[], :operation_metrics::text[], :in_commit_timestamp::bigint[],
        :read_version::bigint[], :is_blind_append::boolean[], :commit_id::text[],
        :transaction_id::text[], :adds::bigint[], :removes::bigint[], :actions::bigint[],
        :bytes_added::bigint[], :bytes_removed::bigint[], :user_metadata::text[], :client::text[],
        :payload::bytea[], :payload_bytes::bigint[], :digest::text[]
    ) u
    returning version, digest, committed_at
)
insert into dl_mirror_status (
    table_id, version, status, json_written, checkpoint_written, digest, retry_count, updated_at
)
select
    :table_id::uuid, version, 'PENDING', false, false, digest, 0,
    to_timestamp(committed_at / 1000.0)
from version

-- By two look-ups for each table that is behind, whatever the planner expects their number to be.
-- name: behind_tables
select
    t.table_id, case when t.namespace = '' then t.name else t.namespace || '.' || t.name end,
    t.location, t.mirrored_through, t.current_version, v.committed_at, s.status, s.retry_count,
    s.last_attempt_at, s.next_attempt_at, s.error_message, t.properties, t.state,
    t.mirror_paused
from dl_tables t
left join lateral (
    select w.committed_at from dl_table_versions w
    where w.table_id = t.table_id and w.version = t.mirrored_through + 1
    limit 1
) v on true
left join lateral (
    select m.status, m.retry_count, m.last_attempt_at, m.next_attempt_at, m.error_message
    from dl_mirror_status m
    where m.table_id = t.table_id and m.version = t.mirrored_through + 1
    limit 1
) s on true
where t.mirrored_through < t.current_version and t.state in ('active', 'detached', 'conflict')
order by v.committed_at

-- name: remember_commit_tags
update dl_mirror_status s set object_size = u.size, object_tag = u.e_tag
from unnest(:version::bigint[], :digest::text[], :size::bigint[], :e_tag::text[])
    u (version, digest, size, e_tag)
where s.table_id = :table_id::uuid and s.version = u.version and s.digest = u.digest

-- name: remember_file_tags
update dl_log_files f set object_tag = u.e_tag
from unnest(:key::text[], :digest::text[], :e_tag::text[]) u (key, digest, e_tag)
where f.table_id = :table_id::uuid and f.key = u.key and f.digest = u.digest

-- name: end_files
with ended as (
    delete from dl_files f
    using unnest(
        :file_key::uuid[], :deletion_timestamp::bigint[], :remove_data_change::boolean[],
        :extended_file_metadata::boolean[]
    ) u (file_key, deletion_timestamp, remove_data_change, extended_file_metadata)
    where f.table_key = {table_key} and f.file_key = u.file_key
    returning f.*, u.deletion_timestamp, u.remove_data_change, u.extended_file_metadata
)
insert into dl_removed_files (
    file_id, table_key, file_key, path_hash, path, dv_id, size, modification_time, partition_values,
    stats, num_records, tags, deletion_vector, base_row_id, default_row_commit_version,
    clustering_provider, data_change, added_version, unknown_fields, removed_version, removal,
    deletion_timestamp, remove_data_change, extended_file_metadata
)
select
    file_id, table_key, file_key, path_hash, path, dv_id, size, modification_time, partition_values,
    stats, num_records, tags, deletion_vector, base_row_id, default_row_commit_version,
    clustering_provider, data_change, added_version, unknown_fields,
    :version::bigint, :removal, deletion_timestamp, remove_data_change, extended_file_metadata
from ended

-- name: removed_keys
select replace(file_key::text, '-', '') from dl_removed_files
where table_key = {table_key} and removed_version = :version and removal = 'remove'

-- name: insert_partitions
insert into dl_partitions (table_key, partition_values)
select {table_key}, u from unnest(:partition_values::text[]) u
on conflict (table_key, partition_values) do update set empty_since = null
where dl_partitions.empty_since is not null

-- name: insert_stats_num
insert into dl_stats_num (stats_key, reach, low, high, file_id)
select * from unnest(
    :stats_key::integer[], :reach::smallint[], :low::float8[], :high::float8[], :file_id::bigint[]
)

-- name: insert_stats_text
insert into dl_stats_text (stats_key, low, high, file_id)
select * from unnest(:stats_key::integer[], :low::text[], :high::text[], :file_id::bigint[])

-- name: schema_version_table
create table if not exists dl_schema_version (
    version integer primary key, name text not null, applied_at timestamptz not null
)

-- name: has_namespace
select count(*) from pg_catalog.pg_namespace where nspname = :schema

-- name: has_schema_version
select count(*) from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relname = 'dl_schema_version' and n.nspname = current_schema()

-- name: files_at
select {columns} from dl_files f
where f.table_key = {table_key} and f.added_version <= :version::bigint {live_filter}
union all
select {columns} from dl_removed_files f
where f.table_key = {table_key} and f.removed_version > :version::bigint
    and f.added_version <= :version::bigint {filter}

-- name: chosen_files
f.file_id = any (array(
    {chosen}
))

-- name: prune_num
select s.file_id from dl_stats_num s
where s.stats_key = {stats_key} and s.low <= :{high}::float8 and s.high >= :{low}::float8

-- name: prune_reach
select s.file_id from dl_stats_num s
where s.stats_key = {stats_key} and s.reach = {reach} and s.low >= :{least}::float8
    and s.low <= :{high}::float8 and s.high >= :{low}::float8

-- name: prune_text
select s.file_id from dl_stats_text s
where s.stats_key = {stats_key} and s.low <= :{high}::text collate "C"
    and (s.high is null or s.high >= :{low}::text collate "C")

-- name: prune_text_from
select s.file_id from dl_stats_text s
where s.stats_key = {stats_key} and (s.high is null or s.high >= :{low}::text collate "C")

-- name: prune_partitions
and f.partition_values = any(:{partitions}::text[])

-- name: of_keys
and (f.file_key = any(:keys::text[]::uuid[]) or f.path_hash = any(:keys::text[]::uuid[]))

-- name: tables_around
-- By the index on places, by the index on names, and the few whose place is a symbolic link.
select {table_columns} from dl_tables t
where
    t.location_key = any(:keys::text[])
    and t.state not in ('deleted', 'detached')
union all
select {table_columns} from dl_tables t
where
    t.location_key >= :below_key::text and t.location_key < :end_key::text
    and t.state not in ('deleted', 'detached')
union all
select {table_columns} from dl_tables t
where t.namespace = :namespace::text and t.name = :name::text and t.state <> 'deleted'
union all
select {table_columns} from dl_tables t
where
    t.location <> t.location_key and t.state not in ('deleted', 'detached')
    and (
        t.location = any(:places::text[])
        or (t.location >= :below::text and t.location < :end::text)
    )

-- name: file_id_part
and f.file_id >= :low_id::bigint and f.file_id < :high_id::bigint

-- name: apply_schema_version
insert into dl_schema_version (version, name, applied_at) values (:version, :name, {time:now})

-- name: schema_versions
select version, name, applied_at from dl_schema_version order by version

-- name: lock_catalog
select pg_advisory_xact_lock(hashtextextended('deltasql ' || current_schema(), 0))

-- name: lock_lease
select holder, fencing from dl_leases
where table_id = :table_id and purpose = :purpose for update

-- name: lacking_rights
select current_user::text, (
    select string_agg(
        case
            when r.name = 'UPDATE' and has_any_column_privilege(to_regclass(:relation::text), r.name)
                then 'UPDATE of some columns'
            else r.name
        end,
        ', ' order by r.position
    )
    from unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE']) with ordinality r (name, position)
    where not has_table_privilege(to_regclass(:relation::text), r.name)
)

-- name: absolute_paths
select path, deletion_vector from dl_files
where table_key <> {table_key}
    and (strpos(path, ':/') > 0 or substr(path, 1, 1) = '/' or strpos(deletion_vector, '"p"') > 0)
union all
select path, deletion_vector from dl_removed_files
where table_key <> {table_key}
    and (strpos(path, ':/') > 0 or substr(path, 1, 1) = '/' or strpos(deletion_vector, '"p"') > 0)

-- name: insert_vacuum_marks
insert into dl_vacuum_marks (table_id, key)
select :table_id::uuid, u from unnest(:key::text[]) u
on conflict do nothing

-- name: delete_vacuum_marks
delete from dl_vacuum_marks where table_id = :table_id::uuid and key = any(:key::text[])

-- name: insert_vacuumed
update dl_removed_files set vacuumed_at = to_timestamp(:now::bigint / 1000.0)
where file_id = any(:file_id::bigint[]) and table_key = {table_key} and vacuumed_at is null

-- name: marked_keys
select key from dl_vacuum_marks where table_id = :table_id::uuid and key = any(:keys::text[])

-- name: live_identities
select path, dv_id from dl_files
where table_key = {table_key}
    and (file_key = any(:keys::text[]::uuid[]) or path_hash = any(:keys::text[]::uuid[]))

-- A clone that comes to refer to files here waits for a vacuum that is marking, and the other
-- way round.
-- name: share_table
select 1 from dl_tables where table_id = :table_id::uuid for share

-- The server's lock for notifying is not held while a disk is waited for.
-- name: notify_commits
select
    pg_catalog.set_config('synchronous_commit', 'off', true), pg_catalog.pg_notify(:channel, u)
from unnest(:table_ids::text[]) u

-- name: database_size
select cast(sum(pg_total_relation_size(c.oid)) as bigint)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = current_schema() and c.relkind = 'r' and left(c.relname, 3) = 'dl_'
