-- Overrides for SQLite. Bulk queries take one row of bound values at a time; the driver repeats
-- them over the columns it is given.

-- name: insert_files
insert into dl_files (
    file_id, table_id, path, path_key, dv_id, size, modification_time, partition_values, stats,
    num_records, tags, deletion_vector, base_row_id, default_row_commit_version,
    clustering_provider, data_change, added_version, extra
) values (
    :file_id, :table_id, :path, :path_key, :dv_id, :size, :modification_time, :partition_values,
    :stats, :num_records, :tags, :deletion_vector, :base_row_id, :default_row_commit_version,
    :clustering_provider, :data_change, :version, :extra
)

-- name: end_files_copy
insert into dl_removed_files
select f.*, :version, :ended_by, :deletion_timestamp, :remove_data_change, :extended_file_metadata
from dl_files f
where f.table_id = :table_id and coalesce(f.path_key, f.path) = :key and f.dv_id = :dv_id

-- name: end_files_delete
delete from dl_files
where table_id = :table_id and coalesce(path_key, path) = :key and dv_id = :dv_id

-- name: insert_tombstones
insert into dl_removed_files (
    file_id, table_id, path, path_key, dv_id, size, partition_values, deletion_vector,
    base_row_id, default_row_commit_version, ended_version, ended_by, deletion_timestamp,
    remove_data_change, extended_file_metadata
) values (
    :file_id, :table_id, :path, :path_key, :dv_id, :size, :partition_values, :deletion_vector,
    :base_row_id, :default_row_commit_version, :version, 'remove', :deletion_timestamp,
    :remove_data_change, :extended_file_metadata
)

-- name: insert_partitions
insert into dl_partitions (table_id, partition_values) values (:table_id, :partition_values)
on conflict do nothing

-- name: insert_stats_num
insert into dl_stats_num (stats_key, low, high, file_id) values (:stats_key, :low, :high, :file_id)

-- name: insert_stats_text
insert into dl_stats_text (stats_key, low, high, file_id) values (:stats_key, :low, :high, :file_id)

-- name: schema_version_table
create table if not exists dl_schema_version (
    version integer primary key, name text not null, applied_at integer not null
) strict

-- name: has_schema_version
select count(*) from sqlite_master where type = 'table' and name = 'dl_schema_version'

-- name: files_at
select {columns} from dl_files f {live_hint}
where f.table_id = :table_id and f.added_version <= :version {live_filter}
union all
select {columns} from dl_removed_files f
where f.table_id = :table_id and f.ended_version > :version and f.added_version <= :version {filter}

-- name: prune_num
select s.file_id from dl_stats_num s
where s.stats_key = {stats_key} and s.low <= :{high} and s.high >= :{low}

-- name: prune_text
select s.file_id from dl_stats_text s
where s.stats_key = {stats_key} and s.low <= :{high} and (s.high is null or s.high >= :{low})

-- name: prune_text_from
select s.file_id from dl_stats_text s
where s.stats_key = {stats_key} and (s.high is null or s.high >= :{low})

-- name: prune_partitions
and f.partition_values in (select value from json_each(:{partitions}))

-- name: apply_schema_version
insert into dl_schema_version (version, name, applied_at) values (:version, :name, :now)

-- name: schema_versions
select version, name, applied_at from dl_schema_version order by version
