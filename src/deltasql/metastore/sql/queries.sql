-- Named queries that both databases run as they are. `:name` is a bound value. A query of the same
-- name in sqlite.sql or postgres.sql takes the place of the one here.

-- name: table_columns
-- not a query: what `{table_columns}` stands for, the fields of TableRow in their order
t.table_key, t.table_id, t.namespace, t.name, t.location, t.location_key, t.created_at,
t.current_version, t.last_ict, t.metadata_version, t.protocol_version, t.state, t.first_version,
t.mirrored_through, t.log_floor, t.properties, t.is_vacuuming, t.is_purged, t.history_floor,
t.mirror_paused, t.partitions_emptied

-- name: catalog_row
select catalog_id, epoch, created_at from dl_catalog

-- name: open_catalog
select c.catalog_id, c.epoch, c.created_at, (select max(s.version) from dl_schema_version s)
from dl_catalog c

-- name: insert_catalog
insert into dl_catalog (only_row, catalog_id, epoch, created_at)
values (1, :catalog_id, :epoch, {time:created_at})

-- name: take_ids
update dl_counters set value = value + :amount where name = :name returning value

-- name: lock_table
select {table_columns}, t.epoch, {now} from dl_tables t where t.table_id = :table_id

-- name: table_by_id
select {table_columns} from dl_tables t where t.table_id = :table_id

-- name: table_by_name
select {table_columns} from dl_tables t
where t.namespace = :namespace and t.name = :name and t.state <> 'deleted'

-- name: names_of_length
select t.namespace, t.name from dl_tables t
where t.state <> 'deleted' and length(t.name) between :shortest and :longest
order by t.namespace, t.name limit :most

-- name: dropped_tables
select {table_columns} from dl_tables t where t.state = 'deleted' order by t.namespace, t.name

-- name: all_tables
select {table_columns} from dl_tables t where t.state <> 'deleted' order by t.namespace, t.name

-- name: insert_table
insert into dl_tables (
    table_id, namespace, name, location, location_key, created_at, current_version, last_ict,
    metadata_version, protocol_version, state, first_version, mirrored_through, log_floor,
    properties, epoch
) values (
    :table_id, :namespace, :name, :location, :location_key, {time:created_at}, -1, :last_ict,
    -1, -1, :state, :first_version, :mirrored_through, :log_floor, :properties,
    (select c.epoch from dl_catalog c)
)

-- name: rename_table
update dl_tables set namespace = :namespace, name = :name where table_id = :table_id

-- name: set_state
update dl_tables set state = :state where table_id = :table_id

-- name: set_properties
update dl_tables set properties = :properties where table_id = :table_id

-- name: set_mirror_paused
update dl_tables set mirror_paused = :paused where table_id = :table_id

-- name: raise_history_floor
update dl_tables set history_floor = :floor where table_id = :table_id

-- name: raise_last_ict
update dl_tables set last_ict = case when last_ict < :ict then :ict else last_ict end
where table_id = :table_id

-- name: advance_table
update dl_tables set
    current_version = :version,
    last_ict = :ict,
    metadata_version = case when :metadata_changed = 1 then :version else metadata_version end,
    protocol_version = case when :protocol_changed = 1 then :version else protocol_version end,
    state = :state
where table_id = :table_id

-- name: version_by_commit_id
select
    version, digest, in_commit_timestamp, operation, operation_params, operation_metrics, adds,
    removes
from dl_table_versions
where table_id = :table_id and commit_id = :commit_id

-- One version; PostgreSQL takes several at once, SQLite runs it for each.
-- name: insert_versions
insert into dl_table_versions (
    table_id, version, committed_at, committer, operation, operation_params, operation_metrics,
    in_commit_timestamp, read_version, is_blind_append, commit_id, transaction_id, adds, removes,
    actions, bytes_added, bytes_removed, user_metadata, client, payload, payload_bytes, digest, origin
) values (
    :table_id, :version, :committed_at, :committer, :operation, :operation_params,
    :operation_metrics, :in_commit_timestamp, :read_version, :is_blind_append, :commit_id,
    :transaction_id, :adds, :removes, :actions, :bytes_added, :bytes_removed, :user_metadata,
    :client, :payload, :payload_bytes, :digest, 'commit'
)

-- name: insert_payload_chunk
insert into dl_payload_chunks (table_id, version, chunk, payload)
values (:table_id, :version, :chunk, :payload)

-- name: payload
select payload, payload_bytes, digest from dl_table_versions
where table_id = :table_id and version = :version

-- name: payload_chunks
select payload from dl_payload_chunks
where table_id = :table_id and version = :version order by chunk

-- name: versions_between
select version, operation, committer, commit_id, is_blind_append, transaction_id
from dl_table_versions
where table_id = :table_id and version > :after and version <= :upto order by version

-- name: history
select
    version, committed_at, committer, operation, operation_params, operation_metrics,
    user_metadata, read_version, is_blind_append, adds, removes, bytes_added, bytes_removed,
    commit_id, transaction_id, client, origin, digest
from dl_table_versions
where table_id = :table_id and version <= :upto order by version desc limit :most

-- The newest version of first to last that is not later than a time. Without the backdated ones
-- times rise with the versions: what is above `last` shows that `last` is not later either. Those
-- that are backdated are few, and are looked through by number.
-- name: version_at
select max(c.version) from (
    select case when r.version > :last then :last else r.version end as version
    from (
        select version from dl_table_versions
        where table_id = :table_id and is_backdated = {false} and committed_at <= :timestamp
        order by committed_at desc limit 1
    ) r
    where r.version >= :first
    union all
    select b.version from (
        select version from dl_table_versions
        where table_id = :table_id and is_backdated = {true} and committed_at <= :timestamp
            and version >= :first and version <= :last
        order by version desc limit 1
    ) b
) c

-- name: version_time
select committed_at from dl_table_versions
where table_id = :table_id and version = :version

-- name: table_head
select t.current_version, t.state, c.epoch from dl_tables t cross join dl_catalog c
where t.table_id = :table_id

-- name: commit_ids
select version, committed_at, commit_id from dl_table_versions
where table_id = :table_id and version >= :first and version <= :last order by version

-- name: insert_metadata
insert into dl_metadata_updates (
    table_id, version, metadata_id, name, description, format_provider, schema_string,
    partition_columns, configuration, created_time, action
) values (
    :table_id, :version, :metadata_id, :name, :description, :format_provider, :schema_string,
    :partition_columns, :configuration, :created_time, :action
)

-- name: metadata_at
select version, action from dl_metadata_updates
where table_id = :table_id and version <= :version order by version desc limit 1

-- name: insert_protocol
insert into dl_protocol_updates (
    table_id, version, min_reader_version, min_writer_version, reader_features, writer_features, action
) values (
    :table_id, :version, :min_reader_version, :min_writer_version, :reader_features,
    :writer_features, :action
)

-- name: protocol_at
select version, action from dl_protocol_updates
where table_id = :table_id and version <= :version order by version desc limit 1

-- name: insert_domain
insert into dl_domain_metadata (table_id, domain, version, configuration, removed)
values (:table_id, :domain, :version, :configuration, :removed)

-- name: domains_at
select d.domain, d.configuration, d.removed from dl_domain_metadata d
where d.table_id = :table_id and d.version = (
    select max(e.version) from dl_domain_metadata e
    where e.table_id = d.table_id and e.domain = d.domain and e.version <= :version
)
order by d.domain

-- name: insert_txn
insert into dl_txn_actions (table_id, app_id, version, txn_version, last_updated)
values (:table_id, :app_id, :version, :txn_version, :last_updated)

-- name: current_txn
select txn_version from dl_txn_actions where table_id = :table_id and app_id = :app_id
order by version desc limit 1

-- name: version_of_txn
select min(version) from dl_txn_actions
where table_id = :table_id and app_id = :app_id and txn_version >= :txn_version

-- Steps from each application to the next one in the index: a stream has very many rows.
-- name: txns_at
with recursive apps (app_id) as (
    select min(t.app_id) from dl_txn_actions t where t.table_id = :table_id
    union all
    select (
        select min(t.app_id) from dl_txn_actions t
        where t.table_id = :table_id and t.app_id > apps.app_id
    )
    from apps where apps.app_id is not null
)
select d.app_id, d.txn_version, d.last_updated
from apps
join dl_txn_actions d on d.table_id = :table_id and d.app_id = apps.app_id and d.version = (
    select max(e.version) from dl_txn_actions e
    where e.table_id = :table_id and e.app_id = apps.app_id and e.version <= :version
)
order by d.app_id

-- name: partitions
select partition_values from dl_partitions
where table_key = {table_key} and (empty_since is null or empty_since > :version)

-- Combinations whose last file went with a version. Time travel to before it still finds them.
-- name: empty_partitions
update dl_partitions as p set empty_since = :version
where p.table_key = {table_key} and p.partition_values in (
        select f.partition_values from dl_removed_files f
        where f.table_key = {table_key} and f.removed_version = :version
    )
    and not exists (
        select 1 from dl_files f
        where f.table_key = p.table_key and f.partition_values = p.partition_values
    )
returning partition_values

-- name: note_emptied_partitions
update dl_tables set partitions_emptied = :version where table_id = :table_id

-- name: forget_partitions
delete from dl_partitions where table_key = {table_key} and empty_since <= :floor

-- name: stats_columns
select stats_key, column_name, column_type, kind, since_version, until_version, is_whole
from dl_stats_columns where table_key = {table_key} order by stats_key

-- Steps from each reach to the next one in the index, instead of reading all rows of a column.
-- name: stats_reaches
with recursive found (reach) as (
    select min(s.reach) from dl_stats_num s where s.stats_key = :stats_key
    union all
    select (
        select min(s.reach) from dl_stats_num s
        where s.stats_key = :stats_key and s.reach > found.reach
    )
    from found where found.reach is not null
)
select reach from found where reach is not null

-- name: open_stats_column
insert into dl_stats_columns (
    stats_key, table_key, column_name, column_type, kind, since_version, until_version
) values (:stats_key, {table_key}, :column_name, :column_type, :kind, :since_version, null)

-- name: close_stats_column
update dl_stats_columns set until_version = :version
where stats_key = :stats_key and until_version is null

-- name: files_summary
select count(*), coalesce(sum(size), 0), sum(num_records), count(num_records)
from (
    select size, num_records from dl_files
    where table_key = {table_key} and added_version <= :version
    union all
    select size, num_records from dl_removed_files
    where table_key = {table_key} and removed_version > :version and added_version <= :version
) f

-- name: purge_files
delete from dl_files where table_key = {table_key}

-- name: purge_removed_files
delete from dl_removed_files where table_key = {table_key}

-- name: purge_partitions
delete from dl_partitions where table_key = {table_key}

-- name: purge_stats_num
delete from dl_stats_num
where stats_key in (select stats_key from dl_stats_columns where table_key = {table_key})

-- name: purge_stats_text
delete from dl_stats_text
where stats_key in (select stats_key from dl_stats_columns where table_key = {table_key})

-- name: purge_stats_columns
delete from dl_stats_columns where table_key = {table_key}

-- name: purge_mirror_rows
delete from dl_mirror_status where table_id = :table_id

-- name: purge_log_files
delete from dl_log_files where table_id = :table_id

-- name: purge_vacuum_marks
delete from dl_vacuum_marks where table_id = :table_id

-- name: purge_leases
delete from dl_leases where table_id = :table_id and purpose <> 'purge'

-- name: end_all_open_work
delete from dl_leases where table_id = :table_id and started_at is not null

-- The table may come back, and its numbers go on: no holder from before the drop is one after it.
-- name: revoke_leases
update dl_leases set fencing = fencing + 1, expires_at = {long_ago}
where table_id = :table_id and started_at is null and purpose <> 'purge'

-- name: end_lease
delete from dl_leases
where table_id = :table_id and purpose = :purpose and holder = :holder and fencing = :fencing

-- name: forget_verification
update dl_tables set
    verify_started_at = null, verified_at = null, verified_version = null, findings = null,
    verify_runs = 0
where table_id = :table_id

-- name: changes
select 'added' as change, path, dv_id, added_version as version, size, num_records, partition_values
from dl_files
where table_key = {table_key} and added_version > :after and added_version <= :upto
union all
select 'added', path, dv_id, added_version, size, num_records, partition_values
from dl_removed_files
where table_key = {table_key} and added_version > :after and added_version <= :upto
union all
select removal, path, dv_id, removed_version, size, num_records, partition_values
from dl_removed_files
where table_key = {table_key} and removed_version > :after and removed_version <= :upto
order by 4, 1, 2, 3

-- name: count_ended
select count(*) from dl_removed_files
where table_key = {table_key} and removed_version = :version and removal = 'remove'

-- name: rows_above
select 'dl_table_versions', count(*) from dl_table_versions
where table_id = :table_id and version > :version
union all
select 'dl_files', count(*) from dl_files
where table_key = {table_key} and added_version > :version
union all
select 'dl_removed_files', count(*) from dl_removed_files
where table_key = {table_key} and removed_version > :version
union all
select 'dl_mirror_status', count(*) from dl_mirror_status
where table_id = :table_id and version > :version

-- name: acquire_lease
insert into dl_leases (table_id, purpose, holder, fencing, expires_at)
values (:table_id, :purpose, :holder, 1, {time:expires_at})
on conflict (table_id, purpose) do update set
    holder = excluded.holder, fencing = dl_leases.fencing + 1, expires_at = excluded.expires_at
where dl_leases.expires_at <= {time:now}
returning fencing

-- name: lock_lease
select holder, fencing from dl_leases where table_id = :table_id and purpose = :purpose

-- name: live_lease
select 1 from dl_leases
where table_id = :table_id and purpose = :purpose and expires_at > {time:now}

-- name: renew_lease
update dl_leases set expires_at = {time:expires_at} where table_id = :table_id and purpose = :purpose

-- A lease that is given back keeps its row, so that its number goes on.
-- name: release_lease
update dl_leases set expires_at = {long_ago}
where table_id = :table_id and purpose = :purpose and holder = :holder and fencing = :fencing

-- name: record_log_file
insert into dl_log_files (
    table_id, key, version, kind, size, digest, num_rows, num_adds, object_tag
) values (:table_id, :key, :version, :kind, :size, :digest, :num_rows, :num_adds, :e_tag)
on conflict (table_id, key) do update set
    kind = excluded.kind, size = excluded.size, digest = excluded.digest,
    num_rows = excluded.num_rows, num_adds = excluded.num_adds, object_tag = excluded.object_tag

-- name: forget_log_file
delete from dl_log_files where table_id = :table_id and key = :key

-- name: log_files
select key, version, kind, size, digest, num_rows, num_adds, object_tag from dl_log_files
where table_id = :table_id order by key

-- name: newest_checkpoint
select key, version, kind, size, digest, num_rows, num_adds, object_tag from dl_log_files
where table_id = :table_id and kind = 'checkpoint' order by version desc limit 1

-- name: ended_since
select t.history_floor, exists (
    select 1 from dl_removed_files f
    where f.table_key = t.table_key and f.removed_version > :version
)
from dl_tables t where t.table_id = :table_id

-- The files of a version of which none was removed since, in the order in which they came.
-- name: live_in_order
select {columns} from dl_files f
where f.table_key = {table_key} and f.added_version <= :version
order by f.added_version, f.file_id

-- name: in_order
select {columns} from (
    select {inner} from dl_files f
    where f.table_key = {table_key} and f.added_version <= :version
    union all
    select {inner} from dl_removed_files f
    where f.table_key = {table_key} and f.removed_version > :version and f.added_version <= :version
) f order by f.added_version, f.file_id

-- Tombstones at a version: the last word on their file was a remove, and not too long ago. What
-- speaks of a file later is found by its key: the plus keeps SQLite from walking all later removes.
-- The order follows from the log alone, so that a catalog made again from it gives the same rows.
-- name: tombstones_at
select {columns} from dl_removed_files f
where f.table_key = {table_key} and f.removal = 'remove' and f.removed_version <= :version
    and coalesce(f.deletion_timestamp, 0) > :cutoff
    and not exists (
        select 1 from dl_removed_files n
        where n.table_key = f.table_key and n.file_key = f.file_key
            and +n.removed_version > f.removed_version
            and coalesce(n.added_version, n.removed_version) <= :version
    )
    and not exists (
        select 1 from dl_files n
        where n.table_key = f.table_key and n.file_key = f.file_key and n.added_version <= :version
    )
order by
    f.removed_version, coalesce(f.added_version, -1),
    case when f.added_version is null then f.path end,
    case when f.added_version is null then f.dv_id end,
    f.file_id

-- name: payload_sizes
select version, payload_bytes from dl_table_versions
where table_id = :table_id and version >= :first and version <= :last order by version

-- name: payloads
select version, committed_at, payload, payload_bytes, digest from dl_table_versions
where table_id = :table_id and version >= :first and version <= :last order by version

-- name: mirror_range
insert into dl_mirror_status (
    table_id, version, status, json_written, checkpoint_written, digest, retry_count,
    last_attempt_at, updated_at
)
select v.table_id, v.version, 'SUCCESS', {true}, {false}, v.digest, 0, {time:now}, {time:now}
from dl_table_versions v
where v.table_id = :table_id and v.version >= :first and v.version <= :last
    and not exists (
        select 1 from dl_tables t
        where t.table_id = :table_id and t.is_purged
    )
    and exists (
        select 1 from dl_table_versions w
        where w.table_id = :table_id and w.version = :last
            and w.digest = coalesce(:digest, w.digest)
    )
on conflict (table_id, version) do update set
    status = 'SUCCESS', json_written = {true}, error_message = null,
    last_attempt_at = excluded.last_attempt_at, next_attempt_at = null,
    updated_at = excluded.updated_at
where dl_mirror_status.status <> 'SUCCESS'

-- name: digests
select version, digest from dl_table_versions
where table_id = :table_id and version >= :first and version <= :last

-- Whoever has locked a table by now commits first; whoever locks it later sees the new epoch.
-- name: lock_all_tables
select count(*) from dl_tables

-- name: new_epoch
update dl_catalog set epoch = epoch + 1 returning epoch

-- name: new_epoch_of_tables
update dl_tables set epoch = (select c.epoch from dl_catalog c)

-- name: raise_log_floor
update dl_tables set log_floor = :floor
where table_id = :table_id and log_floor < :floor and mirrored_through >= :floor

-- name: first_version_since
select min(version) from dl_table_versions where table_id = :table_id and committed_at >= :cutoff

-- name: all_paths
select path, deletion_vector from dl_files where table_key = {table_key}
union all
select path, deletion_vector from dl_removed_files where table_key = {table_key}

-- name: set_purged
update dl_tables set is_purged = {true} where table_id = :table_id

-- name: end_vacuuming
update dl_tables set is_vacuuming = {false}
where table_id = :table_id
    and not exists (select 1 from dl_vacuum_marks m where m.table_id = :table_id)

-- name: vacuumed_of_version
select count(*), max(vacuumed_at) from dl_removed_files
where table_key = {table_key} and removed_version > :version and added_version <= :version
    and vacuumed_at is not null

-- name: vacuumed_between
select path, vacuumed_at from dl_removed_files
where table_key = {table_key} and removed_version >= :first and added_version <= :last
    and vacuumed_at is not null

-- name: table_places
select table_id, location, location_key from dl_tables
where table_id <> :table_id and state <> 'deleted'

-- Dropped tables keep the marks of their last vacuum and may come back, until another table takes
-- their location.
-- name: markable_places
select t.table_id, t.location, t.location_key from dl_tables t
where t.table_id <> :table_id and not t.is_purged and (
    t.state <> 'deleted'
    or t.location_key not in (select o.location_key from dl_tables o where o.state <> 'deleted')
)

-- Where purged tables lay and none lies now: what is there goes, or is gone.
-- name: purged_places
select t.table_id, t.location, t.location_key from dl_tables t
where t.is_purged and not exists (
    select 1 from dl_tables o where o.location_key = t.location_key and o.state <> 'deleted'
)

-- name: note_open_work
insert into dl_leases (table_id, purpose, holder, fencing, started_at, expires_at)
values (:table_id, :purpose, :holder, 0, {time:started_at}, {time:expires_at})
on conflict (table_id, purpose) do update set expires_at = excluded.expires_at

-- name: open_work
select holder from dl_leases where table_id = :table_id and purpose = :purpose

-- name: end_open_work
delete from dl_leases where table_id = :table_id and purpose = :purpose

-- name: oldest_version_row
select min(version) from dl_table_versions where table_id = :table_id

-- name: oldest_removed_version
select min(removed_version) from dl_removed_files where table_key = {table_key}

-- name: stats_keys
select stats_key, kind from dl_stats_columns where table_key = {table_key}

-- name: forget_stats_num
delete from dl_stats_num where stats_key = :stats_key and file_id in (
    select file_id from dl_removed_files where table_key = {table_key} and removed_version <= :through
)

-- name: forget_stats_text
delete from dl_stats_text where stats_key = :stats_key and file_id in (
    select file_id from dl_removed_files where table_key = {table_key} and removed_version <= :through
)

-- name: forget_removed_files
delete from dl_removed_files where table_key = {table_key} and removed_version <= :through

-- name: forget_chunks
delete from dl_payload_chunks where table_id = :table_id and version < :floor

-- name: forget_mirror_status
delete from dl_mirror_status where table_id = :table_id and version < :floor

-- name: forget_versions
delete from dl_table_versions where table_id = :table_id and version < :floor

-- name: forget_metadata
delete from dl_metadata_updates
where table_id = :table_id and version < (
    select max(m.version) from dl_metadata_updates m
    where m.table_id = :table_id and m.version <= :floor
)

-- name: forget_protocol
delete from dl_protocol_updates
where table_id = :table_id and version < (
    select max(p.version) from dl_protocol_updates p
    where p.table_id = :table_id and p.version <= :floor
)

-- name: forget_domains
delete from dl_domain_metadata
where table_id = :table_id and version < (
    select max(d.version) from dl_domain_metadata d
    where d.table_id = :table_id and d.version <= :floor and d.domain = dl_domain_metadata.domain
)

-- name: forget_txn_actions
delete from dl_txn_actions
where table_id = :table_id and version < (
    select max(a.version) from dl_txn_actions a
    where a.table_id = :table_id and a.version <= :floor and a.app_id = dl_txn_actions.app_id
)
