-- Rolling a table's book back to a version, and keeping the commits that were renumbered. Both
-- databases run these as they are; each of them runs inside the transaction that locks the table.

-- name: roll_back_stats_num
delete from dl_stats_num
where stats_key in (select c.stats_key from dl_stats_columns c where c.table_id = :table_id)
    and (file_id in (
        select f.file_id from dl_files f
        where f.table_id = :table_id and f.added_version > :version
        union all
        select r.file_id from dl_removed_files r
        where r.table_id = :table_id and r.added_version > :version
    ) or stats_key in (
        select c.stats_key from dl_stats_columns c
        where c.table_id = :table_id and c.since_version > :version
    ))

-- name: roll_back_stats_text
delete from dl_stats_text
where stats_key in (select c.stats_key from dl_stats_columns c where c.table_id = :table_id)
    and (file_id in (
        select f.file_id from dl_files f
        where f.table_id = :table_id and f.added_version > :version
        union all
        select r.file_id from dl_removed_files r
        where r.table_id = :table_id and r.added_version > :version
    ) or stats_key in (
        select c.stats_key from dl_stats_columns c
        where c.table_id = :table_id and c.since_version > :version
    ))

-- name: roll_back_stats_columns
delete from dl_stats_columns where table_id = :table_id and since_version > :version

-- name: reopen_stats_columns
update dl_stats_columns set until_version = null
where table_id = :table_id and until_version > :version

-- name: roll_back_files
delete from dl_files where table_id = :table_id and added_version > :version

-- name: revive_files
insert into dl_files (
    file_id, table_id, path, path_key, dv_id, size, modification_time, partition_values, stats,
    num_records, tags, deletion_vector, base_row_id, default_row_commit_version,
    clustering_provider, data_change, added_version, extra
)
select
    file_id, table_id, path, path_key, dv_id, size, modification_time, partition_values, stats,
    num_records, tags, deletion_vector, base_row_id, default_row_commit_version,
    clustering_provider, data_change, added_version, extra
from dl_removed_files
where table_id = :table_id and ended_version > :version and added_version <= :version

-- name: roll_back_removed_files
delete from dl_removed_files where table_id = :table_id and ended_version > :version

-- name: roll_back_metadata
delete from dl_metadata_updates where table_id = :table_id and version > :version

-- name: roll_back_protocol
delete from dl_protocol_updates where table_id = :table_id and version > :version

-- name: roll_back_domains
delete from dl_domain_metadata where table_id = :table_id and version > :version

-- name: roll_back_txns
delete from dl_txns
where table_id = :table_id and app_id in (
    select a.app_id from dl_txn_actions a where a.table_id = :table_id and a.version > :version
)

-- name: roll_back_txn_actions
delete from dl_txn_actions where table_id = :table_id and version > :version

-- The highest number that an application has written, by the first commit that wrote it.
-- name: rebuild_txns
insert into dl_txns (table_id, app_id, txn_version, last_updated)
select a.table_id, a.app_id, a.txn_version, a.last_updated from dl_txn_actions a
where a.table_id = :table_id
    and not exists (
        select 1 from dl_txns t where t.table_id = a.table_id and t.app_id = a.app_id
    )
    and not exists (
        select 1 from dl_txn_actions b
        where b.table_id = a.table_id and b.app_id = a.app_id
            and (
                b.txn_version > a.txn_version
                or (b.txn_version = a.txn_version and b.version < a.version)
            )
    )

-- name: roll_back_mirror_rows
delete from dl_mirror_status where table_id = :table_id and version > :version

-- A checkpoint of a version that is another one now: no bytes have this digest, so `mirror verify`
-- finds it and `mirror repair` writes it again.
-- name: void_log_files
update dl_log_files set digest = '' where table_id = :table_id and version > :version

-- name: roll_back_payload_chunks
delete from dl_payload_chunks where table_id = :table_id and version > :version

-- name: roll_back_versions
delete from dl_table_versions where table_id = :table_id and version > :version

-- name: roll_back_table
update dl_tables set
    current_version = :version,
    last_ict = (
        select v.committed_at from dl_table_versions v
        where v.table_id = :table_id and v.version = :version
    ),
    metadata_version = (
        select max(m.version) from dl_metadata_updates m
        where m.table_id = :table_id and m.version <= :version
    ),
    protocol_version = (
        select max(p.version) from dl_protocol_updates p
        where p.table_id = :table_id and p.version <= :version
    ),
    mirrored_through = case when mirrored_through > :version then :version else mirrored_through end
where table_id = :table_id

-- name: vacuumed_above
select count(*) from dl_removed_files f
join dl_vacuumed_files v on v.file_id = f.file_id
where f.table_id = :table_id and f.ended_version > :version

-- name: keep_rebased_commits
insert into dl_rebased_commits (
    table_id, renumbering, old_version, new_version, commit_id, committed_at, committer, operation,
    transaction_id, payload, payload_bytes, digest, rebased_at
)
select
    table_id, :renumbering, version, version + :shift, commit_id, committed_at, committer,
    operation, transaction_id, payload, payload_bytes, digest, :now
from dl_table_versions where table_id = :table_id and version > :version

-- name: keep_rebased_chunks
insert into dl_rebased_chunks (table_id, renumbering, old_version, chunk, payload)
select table_id, :renumbering, version, chunk, payload
from dl_payload_chunks where table_id = :table_id and version > :version

-- name: rebased_commits
select
    renumbering, old_version, new_version, commit_id, committed_at, committer, operation,
    transaction_id, digest, rebased_at
from dl_rebased_commits where table_id = :table_id order by renumbering, old_version

-- name: rebased_payload
select payload, payload_bytes, digest from dl_rebased_commits
where table_id = :table_id and renumbering = :renumbering and old_version = :old_version

-- name: rebased_payload_chunks
select payload from dl_rebased_chunks
where table_id = :table_id and renumbering = :renumbering and old_version = :old_version
order by chunk
