-- The book of Delta tables: what each table is, every commit's exact bytes, and the files as an
-- index that answers questions fast. Times are integers, milliseconds since 1970 in UTC.

create table dl_catalog (
    only_row integer primary key check (only_row = 1),
    catalog_id text not null,
    epoch integer not null,
    created_at integer not null
) strict;

create table dl_counters (
    name text primary key,
    value integer not null
) strict;
insert into dl_counters (name, value) values ('file_id', 1), ('stats_key', 1);

create table dl_tables (
    table_id text primary key,
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
    properties text not null default '{}'
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
    primary key (table_id, version)
) strict;
-- The idempotency token: the same commit sent twice is one commit.
create unique index dl_table_versions_commit on dl_table_versions (table_id, commit_id);
create index dl_table_versions_transaction on dl_table_versions (transaction_id) where transaction_id is not null;

-- Payloads above the chunk size, in pieces; dl_table_versions.payload is null for them.
create table dl_payload_chunks (
    table_id text not null,
    version integer not null,
    chunk integer not null,
    payload blob not null,
    primary key (table_id, version, chunk)
) strict;

-- The live files. Identity is (path key, dv_id); path_key is null where it equals the path.
create table dl_files (
    file_id integer primary key,
    table_id text not null,
    path text not null,
    path_key text,
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
    extra text
) strict;
create unique index dl_files_identity on dl_files (table_id, coalesce(path_key, path), dv_id);
create index dl_files_partition on dl_files (table_id, partition_values);
create index dl_files_added on dl_files (table_id, added_version);

-- Files that ended: removed (a tombstone) or superseded by an add of the same identity.
create table dl_removed_files (
    file_id integer primary key,
    table_id text not null,
    path text not null,
    path_key text,
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
    extra text,
    ended_version integer not null,
    ended_by text not null check (ended_by in ('remove', 'superseded')),
    deletion_timestamp integer,
    remove_data_change integer,
    extended_file_metadata integer
) strict;
create index dl_removed_files_ended on dl_removed_files (table_id, ended_version);
create index dl_removed_files_identity on dl_removed_files (table_id, coalesce(path_key, path), dv_id);

-- Every combination of partition values a table ever had: filters on partitions are decided here,
-- by typed values, before any file is looked at.
create table dl_partitions (
    table_id text not null,
    partition_values text not null,
    primary key (table_id, partition_values)
) strict;

-- Which columns have their statistics indexed. A file added at or after since_version (and before
-- until_version) has exactly one row per column below, so a file without one is never lost.
create table dl_stats_columns (
    stats_key integer primary key,
    table_id text not null,
    column_name text not null,
    column_type text not null,
    kind text not null check (kind in ('num', 'text')),
    since_version integer not null,
    until_version integer
) strict;
create index dl_stats_columns_table on dl_stats_columns (table_id);

create table dl_stats_num (
    stats_key integer not null,
    low real not null,
    high real not null,
    file_id integer not null,
    primary key (stats_key, low, high, file_id)
) strict, without rowid;

create table dl_stats_text (
    stats_key integer not null,
    low text not null,
    high text,
    file_id integer not null,
    primary key (stats_key, low, file_id)
) strict, without rowid;

create table dl_metadata_updates (
    table_id text not null,
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
    table_id text not null,
    version integer not null,
    min_reader_version integer not null,
    min_writer_version integer not null,
    reader_features text,
    writer_features text,
    action text not null,
    primary key (table_id, version)
) strict;

create table dl_domain_metadata (
    table_id text not null,
    domain text not null,
    version integer not null,
    configuration text not null,
    removed integer not null,
    primary key (table_id, domain, version)
) strict;

create table dl_txn_actions (
    table_id text not null,
    app_id text not null,
    version integer not null,
    txn_version integer not null,
    last_updated integer,
    primary key (table_id, app_id, version)
) strict;

create table dl_txns (
    table_id text not null,
    app_id text not null,
    txn_version integer not null,
    last_updated integer,
    primary key (table_id, app_id)
) strict;

-- The queue of the mirror: written by the committing transaction itself.
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
    primary key (table_id, version)
) strict;
create index dl_mirror_status_due on dl_mirror_status (table_id, version) where status <> 'SUCCESS';

create table dl_log_files (
    table_id text not null,
    key text not null,
    version integer not null,
    kind text not null,
    size integer not null,
    digest text not null,
    primary key (table_id, key)
) strict;

create table dl_leases (
    table_id text not null,
    purpose text not null,
    holder text not null,
    fencing integer not null,
    expires_at integer not null,
    primary key (table_id, purpose)
) strict;

-- Views for people: who did what, when.
create view dl_history as
select
    t.namespace,
    t.name,
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
select table_id, path, dv_id, added_version as version, 'added' as change, size, num_records, partition_values
from dl_files
union all
select table_id, path, dv_id, added_version, 'added', size, num_records, partition_values
from dl_removed_files
where added_version is not null
union all
select table_id, path, dv_id, ended_version, ended_by, size, num_records, partition_values
from dl_removed_files;

create view dl_mirror_lag as
select
    t.namespace,
    t.name,
    t.table_id,
    t.current_version,
    t.mirrored_through,
    t.current_version - t.mirrored_through as versions_behind,
    (
        select min(v.committed_at)
        from dl_table_versions v
        where v.table_id = t.table_id and v.version > t.mirrored_through
    ) as oldest_unmirrored_at
from dl_tables t
where t.state <> 'deleted';
