-- Queries of the mirror: its queue, tags of objects, and periodic verifies.

-- name: insert_mirror_row
insert into dl_mirror_status (
    table_id, version, status, json_written, checkpoint_written, digest, retry_count, updated_at
) values (:table_id, :version, :status, {false}, {false}, :digest, 0, {time:now})

-- name: mirror_row
select
    version, status, json_written, checkpoint_written, digest, retry_count, error_message,
    last_attempt_at, next_attempt_at, updated_at
from dl_mirror_status where table_id = :table_id and version = :version

-- name: mirror_success
update dl_mirror_status set
    status = 'SUCCESS', json_written = :json_written, checkpoint_written = :checkpoint_written,
    error_message = null, last_attempt_at = {time:now}, next_attempt_at = null,
    updated_at = {time:now},
    object_size = coalesce(:object_size, object_size), object_tag = coalesce(:object_tag, object_tag)
where table_id = :table_id and version = :version and digest = coalesce(:digest, digest)

-- name: commit_tags
select v.version, s.object_size, s.object_tag
from dl_table_versions v
join dl_mirror_status s
    on s.table_id = v.table_id and s.version = v.version and s.digest = v.digest
where v.table_id = :table_id and v.version >= :first and v.version <= :last
    and s.object_size is not null and s.object_tag is not null

-- name: mirror_failure
update dl_mirror_status set
    status = :status, error_message = :error_message, retry_count = retry_count + 1,
    last_attempt_at = {time:now}, next_attempt_at = {time:next_attempt_at},
    updated_at = {time:now}
where table_id = :table_id and version = :version and status <> 'SUCCESS'
returning retry_count

-- Bytes that are not this version's move nothing on, and neither does a put for a purged table.
-- name: advance_mirrored_through
update dl_tables set mirrored_through = :version
where table_id = :table_id and mirrored_through = :version - 1
    and not is_purged
    and exists (
        select 1 from dl_table_versions v
        where v.table_id = :table_id and v.version = :version
            and v.digest = coalesce(:digest, v.digest)
    )
returning current_version

-- name: mirror_failed_versions
select version from dl_mirror_status
where table_id = :table_id and status = 'FAILED' order by version

-- name: mirror_ready
select version, retry_count from dl_mirror_status
where table_id = :table_id and status <> 'SUCCESS' and retry_count < :max_attempts
    and (retry_count = 0 or last_attempt_at is null or last_attempt_at <= {time:latest_attempt})
order by version

-- name: oldest_unmirrored
select min(committed_at) from dl_table_versions
where table_id = :table_id and version > :mirrored_through

-- name: conflict_state
update dl_tables set state = 'conflict' where table_id = :table_id and state = 'active'

-- name: mark_checkpoint
update dl_mirror_status set checkpoint_written = {true}, updated_at = {time:now}
where table_id = :table_id and version = :version

-- What a read of a version's files has to know first: how far back the catalog goes, and whether,
-- up to a limit how often, files of the version have ended since.
-- name: advance_mirrored_range
update dl_tables set mirrored_through = :last
where table_id = :table_id and mirrored_through >= :first - 1 and mirrored_through < :last
    and not is_purged
    and exists (
        select 1 from dl_table_versions v
        where v.table_id = :table_id and v.version = :last
            and v.digest = coalesce(:digest, v.digest)
    )
returning current_version

-- Table by table, so that only versions that are not mirrored are looked at.
-- name: count_missing_mirror_rows
select coalesce(sum((
    select count(*) from dl_table_versions v
    where v.table_id = t.table_id and v.version > t.mirrored_through and not exists (
        select 1 from dl_mirror_status s where s.table_id = v.table_id and s.version = v.version
    )
)), 0)
from dl_tables t
where t.mirrored_through < t.current_version and t.state in ('active', 'detached', 'conflict')

-- name: make_missing_mirror_rows
insert into dl_mirror_status (
    table_id, version, status, json_written, checkpoint_written, digest, retry_count, updated_at
)
select v.table_id, v.version, 'PENDING', {false}, {false}, v.digest, 0, {time:now}
from dl_tables t
cross join dl_table_versions v
where v.table_id = t.table_id and v.version > t.mirrored_through
    and t.mirrored_through < t.current_version and t.state in ('active', 'detached', 'conflict')
on conflict (table_id, version) do nothing

-- name: reset_retries
update dl_mirror_status set
    status = 'PENDING', retry_count = 0, next_attempt_at = null, updated_at = {time:now}
where table_id = :table_id and status <> 'SUCCESS'

-- name: verifications
select table_id, verify_started_at, verified_at, verified_version, findings, verify_runs
from dl_tables
where verify_started_at is not null

-- name: verification
select table_id, verify_started_at, verified_at, verified_version, findings, verify_runs
from dl_tables
where table_id = :table_id and verify_started_at is not null

-- name: begin_verification
update dl_tables set verify_started_at = {time:now}
where table_id = :table_id and state not in ('deleted', 'detached')

-- A table that was given back to others meanwhile is theirs to verify, and a worker has no right to
-- change its row.
-- name: end_verification
update dl_tables set
    verified_at = {time:now}, verified_version = :version, findings = :findings,
    verify_runs = verify_runs + 1
where table_id = :table_id and state not in ('deleted', 'detached')
