-- Queries of maintenance: what vacuum marks, deletes and remembers.

-- name: forget_mirror
update dl_tables set mirrored_through = log_floor - 1 where table_id = :table_id

-- name: forget_log_files
delete from dl_log_files where table_id = :table_id

-- name: forget_mirror_rows
update dl_mirror_status set
    status = 'PENDING', json_written = {false}, checkpoint_written = {false}, retry_count = 0,
    next_attempt_at = null, updated_at = {time:now}, object_size = null, object_tag = null
where table_id = :table_id

-- name: forget_files_below
delete from dl_log_files where table_id = :table_id and version < :floor

-- Vacuum. `gone_through` is the newest version that ended files may go with.
-- name: kept_ended_files
select path, deletion_vector from dl_removed_files
where table_key = {table_key} and removed_version > :gone_through and removed_version <= :version

-- name: ended_files_to_vacuum
select file_id, path, deletion_vector, size from dl_removed_files
where table_key = {table_key} and removed_version <= :gone_through and vacuumed_at is null

-- name: files_since
select path, deletion_vector from dl_files where table_key = {table_key} and added_version > :version
union all
select path, deletion_vector from dl_removed_files
where table_key = {table_key} and removed_version > :version and added_version > :version

-- name: set_vacuuming
update dl_tables set is_vacuuming = {true} where table_id = :table_id

-- name: vacuum_marks
select key from dl_vacuum_marks where table_id = :table_id order by key limit :most

-- name: forget_open_work
delete from dl_leases where started_at is not null and expires_at < {time:now}

-- name: oldest_open_work
select min(started_at) from dl_leases where table_id = :table_id and expires_at >= {time:now}

-- Retention of the catalog. Of what changes seldom, the newest row at or below the floor stays.
