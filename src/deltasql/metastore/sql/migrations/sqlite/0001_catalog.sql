-- What deltasql knows of Delta tables. Times that Delta itself has are its integers, milliseconds since
-- 1970 in UTC; times of deltasql's own are in the same unit here.

create table dl_catalog (
    only_row integer primary key check (only_row = 1),
    catalog_id text not null,
    epoch integer not null,
    created_at integer not null
) strict;

-- A row instead of a sequence: a process takes a block of numbers in one step, and a sequence has no
-- step that takes many.
create table dl_counters (
    name text primary key,
    value integer not null
) strict;
insert into dl_counters (name, value) values ('file_id', 1), ('stats_key', 1);

create table dl_tables (
    table_key integer primary key autoincrement,
    table_id text not null unique,
    namespace text not null default '',
    name text not null,
    location text not null,
    location_key text not null,
    created_at integer not null,
    current_version integer not null,
    last_ict integer not null,
    metadata_version integer not null,
    protocol_version integer not null,
    state text not null check (state in ('importing', 'read_only', 'active', 'conflict', 'detached', 'deleted')),
    first_version integer not null,
    mirrored_through integer not null,
    log_floor integer not null,
    properties text not null default '{}',
    is_vacuuming integer not null default 0,
    is_purged integer not null default 0,
    epoch integer not null default 1,
    history_floor integer not null default 0,
    mirror_paused integer not null default 0,
    partitions_emptied integer not null default -1,
    verify_started_at integer,
    verified_at integer,
    verified_version integer,
    findings integer,
    verify_runs integer not null default 0
) strict;
-- A dropped table keeps its row for the audit but gives its name and place free.
create unique index dl_tables_name on dl_tables (namespace, name) where state <> 'deleted';
create unique index dl_tables_location on dl_tables (location_key) where state not in ('deleted', 'detached');

create table dl_table_versions (
    table_id text not null references dl_tables (table_id),
    version integer not null,
    committed_at integer not null,
    committer text,
    operation text not null,
    operation_params text not null,
    operation_metrics text not null,
    in_commit_timestamp integer,
    read_version integer,
    is_blind_append integer not null,
    commit_id text not null,
    transaction_id text,
    adds integer not null,
    removes integer not null,
    actions integer not null,
    bytes_added integer not null,
    bytes_removed integer not null,
    user_metadata text,
    client text,
    payload blob,
    payload_bytes integer not null,
    digest text not null,
    origin text not null check (origin in ('commit', 'import', 'adopted')),
    is_backdated integer not null default 0,
    primary key (table_id, version)
) strict;
-- The idempotency token: the same commit sent twice is one commit.
create unique index dl_table_versions_commit on dl_table_versions (table_id, commit_id);
create index dl_table_versions_transaction on dl_table_versions (transaction_id) where transaction_id is not null;
create index dl_table_versions_time on dl_table_versions (table_id, committed_at) where is_backdated = 0;
create index dl_table_versions_backdated on dl_table_versions (table_id, version) where is_backdated = 1;

create table dl_payload_chunks (
    table_id text not null,
    version integer not null,
    chunk integer not null,
    payload blob not null,
    primary key (table_id, version, chunk)
) strict;

-- A file is known by file_key: a hash, because paths and inline vectors are longer than an index takes.
create table dl_files (
    file_id integer primary key,
    table_key integer not null,
    file_key blob not null,
    path_hash blob,
    path text not null,
    dv_id text not null default '',
    size integer not null,
    modification_time integer not null,
    partition_values text not null,
    stats text,
    num_records integer,
    tags text,
    deletion_vector text,
    base_row_id integer,
    default_row_commit_version integer,
    clustering_provider text,
    data_change integer not null,
    added_version integer not null,
    unknown_fields text
) strict;
create unique index dl_files_key on dl_files (table_key, file_key);
create index dl_files_path on dl_files (table_key, path_hash) where path_hash is not null;
create index dl_files_partition on dl_files (table_key, partition_values);
create index dl_files_added on dl_files (table_key, added_version);
-- Files that are named by a place of their own: they may lie in another table's folder.
create index dl_files_absolute on dl_files (table_key)
where instr(path, ':/') > 0 or substr(path, 1, 1) = '/' or instr(deletion_vector, '"p"') > 0;

create table dl_removed_files (
    file_id integer primary key,
    table_key integer not null,
    file_key blob not null,
    path_hash blob,
    path text not null,
    dv_id text not null default '',
    size integer,
    modification_time integer,
    partition_values text,
    stats text,
    num_records integer,
    tags text,
    deletion_vector text,
    base_row_id integer,
    default_row_commit_version integer,
    clustering_provider text,
    data_change integer,
    added_version integer,
    unknown_fields text,
    removed_version integer not null,
    removal text not null check (removal in ('remove', 'replaced')),
    deletion_timestamp integer,
    remove_data_change integer,
    extended_file_metadata integer,
    vacuumed_at integer
) strict;
create index dl_removed_files_removed on dl_removed_files (table_key, removed_version);
create index dl_removed_files_key on dl_removed_files (table_key, file_key);
create index dl_removed_files_absolute on dl_removed_files (table_key)
where instr(path, ':/') > 0 or substr(path, 1, 1) = '/' or instr(deletion_vector, '"p"') > 0;

create table dl_partitions (
    table_key integer not null,
    partition_values text not null,
    empty_since integer,
    primary key (table_key, partition_values)
) strict;

-- A file added at or after since_version (and before until_version) has exactly one row per column in
-- dl_stats_num or dl_stats_text, so that a file without one is never lost.
create table dl_stats_columns (
    stats_key integer primary key,
    table_key integer not null references dl_tables (table_key) on delete cascade,
    column_name text not null,
    column_type text not null,
    kind text not null check (kind in ('num', 'text')),
    since_version integer not null,
    until_version integer,
    is_whole integer not null default 0
) strict;
create index dl_stats_columns_table on dl_stats_columns (table_key);

-- Ranges are found by a B-tree over their reach (metastore/stats_index.py).
create table dl_stats_num (
    stats_key integer not null,
    reach integer not null,
    low real not null,
    high real not null,
    file_id integer not null,
    primary key (stats_key, reach, low, high, file_id)
) strict, without rowid;

create table dl_stats_text (
    stats_key integer not null,
    low text not null,
    high text,
    file_id integer not null,
    primary key (stats_key, low, file_id)
) strict, without rowid;

create table dl_metadata_updates (
    table_id text not null references dl_tables (table_id) on delete cascade,
    version integer not null,
    metadata_id text not null,
    name text,
    description text,
    format_provider text not null,
    schema_string text not null,
    partition_columns text not null,
    configuration text not null,
    created_time integer,
    action text not null,
    primary key (table_id, version)
) strict;

create table dl_protocol_updates (
    table_id text not null references dl_tables (table_id) on delete cascade,
    version integer not null,
    min_reader_version integer not null,
    min_writer_version integer not null,
    reader_features text,
    writer_features text,
    action text not null,
    primary key (table_id, version)
) strict;

create table dl_domain_metadata (
    table_id text not null references dl_tables (table_id) on delete cascade,
    domain text not null,
    version integer not null,
    configuration text not null,
    removed integer not null,
    primary key (table_id, domain, version)
) strict;

create table dl_txn_actions (
    table_id text not null references dl_tables (table_id) on delete cascade,
    app_id text not null,
    version integer not null,
    txn_version integer not null,
    last_updated integer,
    primary key (table_id, app_id, version)
) strict;

create table dl_mirror_status (
    table_id text not null,
    version integer not null,
    status text not null check (status in ('PENDING', 'SUCCESS', 'FAILED')),
    json_written integer not null,
    checkpoint_written integer not null,
    digest text not null,
    retry_count integer not null default 0,
    error_message text,
    last_attempt_at integer,
    next_attempt_at integer,
    updated_at integer not null,
    object_size integer,
    object_tag text,
    primary key (table_id, version)
) strict;

create table dl_log_files (
    table_id text not null references dl_tables (table_id) on delete cascade,
    key text not null,
    version integer not null,
    kind text not null,
    size integer not null,
    digest text not null,
    num_rows integer,
    num_adds integer,
    object_tag text,
    primary key (table_id, key)
) strict;

create table dl_leases (
    table_id text not null references dl_tables (table_id) on delete cascade,
    purpose text not null,
    holder text not null,
    fencing integer not null,
    started_at integer,
    expires_at integer not null,
    primary key (table_id, purpose)
) strict;

create table dl_imports (
    table_id text primary key references dl_tables (table_id) on delete cascade,
    segment text,
    checkpoint text,
    checkpoint_parts integer not null default 0,
    claim_version integer,
    claim text
) strict;

create table dl_vacuum_marks (
    table_id text not null references dl_tables (table_id) on delete cascade,
    key text not null,
    primary key (table_id, key)
) strict;

-- Views for people.
create view dl_history as
select
    t.namespace,
    t.name,
    t.state = 'deleted' as is_dropped,
    v.table_id,
    v.version,
    strftime('%Y-%m-%d %H:%M:%f', v.committed_at / 1000.0, 'unixepoch') as committed_at,
    v.committer,
    v.operation,
    v.operation_params,
    v.operation_metrics,
    v.user_metadata,
    v.read_version,
    v.is_blind_append,
    v.adds,
    v.removes,
    v.bytes_added,
    v.bytes_removed,
    v.commit_id,
    v.transaction_id,
    v.client,
    v.origin,
    v.digest
from dl_table_versions v
join dl_tables t on t.table_id = v.table_id;

create view dl_file_changes as
select
    t.namespace, t.name, t.state = 'deleted' as is_dropped, t.table_id, c.version,
    strftime('%Y-%m-%d %H:%M:%f', v.committed_at / 1000.0, 'unixepoch') as committed_at, v.operation, c.change, c.path, c.dv_id, c.size,
    c.num_records, c.partition_values
from (
    select
        table_key, added_version as version, 'added' as change, path, dv_id, size, num_records,
        partition_values
    from dl_files
    union all
    select table_key, added_version, 'added', path, dv_id, size, num_records, partition_values
    from dl_removed_files
    where added_version is not null
    union all
    select
        table_key, removed_version, case removal when 'remove' then 'removed' else removal end,
        path, dv_id, size, num_records, partition_values
    from dl_removed_files
) c
join dl_tables t on t.table_key = c.table_key
left join dl_table_versions v on v.table_id = t.table_id and v.version = c.version;

create view dl_mirror_lag as
select
    t.namespace,
    t.name,
    t.table_id,
    t.current_version,
    t.mirrored_through,
    t.current_version - t.mirrored_through as versions_behind,
    strftime('%Y-%m-%d %H:%M:%f', v.committed_at / 1000.0, 'unixepoch') as oldest_unmirrored_at,
    s.status,
    s.retry_count,
    strftime('%Y-%m-%d %H:%M:%f', s.last_attempt_at / 1000.0, 'unixepoch') as last_attempt_at,
    strftime('%Y-%m-%d %H:%M:%f', s.next_attempt_at / 1000.0, 'unixepoch') as next_attempt_at,
    s.error_message
from dl_tables t
left join dl_table_versions v on v.table_id = t.table_id and v.version = t.mirrored_through + 1
left join dl_mirror_status s on s.table_id = t.table_id and s.version = t.mirrored_through + 1
where t.state <> 'deleted';

-- A commit's version, its place in the mirror's queue and the table's new head, by one statement:
-- an insert into this view. (Scripts are split at semicolons that end a line.)
create view dl_new_versions as
select
    v.table_id, v.version, v.committed_at, v.committer, v.operation, v.operation_params,
    v.operation_metrics, v.in_commit_timestamp, v.read_version, v.is_blind_append, v.commit_id,
    v.transaction_id, v.adds, v.removes, v.actions, v.bytes_added, v.bytes_removed,
    v.user_metadata, v.client, v.payload, v.payload_bytes, v.digest, v.origin,
    0 as metadata_changed, 0 as protocol_changed, t.state
from dl_table_versions v
join dl_tables t on t.table_id = v.table_id
where false;

create trigger dl_new_versions_insert instead of insert on dl_new_versions
begin
    insert into dl_table_versions (
        table_id, version, committed_at, committer, operation, operation_params,
        operation_metrics, in_commit_timestamp, read_version, is_blind_append, commit_id,
        transaction_id, adds, removes, actions, bytes_added, bytes_removed, user_metadata,
        client, payload, payload_bytes, digest, origin
    ) values (
        new.table_id, new.version, new.committed_at, new.committer, new.operation,
        new.operation_params, new.operation_metrics, new.in_commit_timestamp, new.read_version,
        new.is_blind_append, new.commit_id, new.transaction_id, new.adds, new.removes,
        new.actions, new.bytes_added, new.bytes_removed, new.user_metadata, new.client,
        new.payload, new.payload_bytes, new.digest, new.origin
    )
    ; insert into dl_mirror_status (
        table_id, version, status, json_written, checkpoint_written, digest, retry_count, updated_at
    ) values (
        new.table_id, new.version, 'PENDING', 0, 0, new.digest, 0, new.committed_at
    )
    ; update dl_tables set
        current_version = new.version,
        last_ict = new.committed_at,
        metadata_version = case
            when new.metadata_changed = 1 then new.version else metadata_version
        end,
        protocol_version = case
            when new.protocol_changed = 1 then new.version else protocol_version
        end
    where table_id = new.table_id
    -- apart: a statement that sets the state writes the indexes that are limited by it
    ; update dl_tables set state = new.state
    where table_id = new.table_id and state <> new.state
    ; end;
