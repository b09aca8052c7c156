-- The book of Delta tables: what each table is, every commit's exact bytes, and the files as an
-- index that answers questions fast. Times are integers, milliseconds since 1970 in UTC.

create table dl_catalog (
    only_row integer primary key check (only_row = 1),
    catalog_id uuid not null,
    epoch bigint not null,
    created_at bigint not null
);

create table dl_counters (
    name text primary key,
    value bigint not null
);
insert into dl_counters (name, value) values ('file_id', 1), ('stats_key', 1);

create table dl_tables (
    table_id uuid primary key,
    namespace text collate "C" not null default '',
    name text collate "C" not null,
    location text not null,
    location_key text collate "C" not null,
    created_at bigint not null,
    current_version bigint not null,
    last_ict bigint not null,
    metadata_version bigint not null,
    protocol_version bigint not null,
    state text not null check (state in ('importing', 'read_only', 'active', 'conflict', 'detached', 'deleted')),
    first_version bigint not null,
    mirrored_through bigint not null,
    log_floor bigint not null,
    properties text not null default '{}'
);
-- A dropped table keeps its row for the audit but gives its name and place free.
create unique index dl_tables_name on dl_tables (namespace, name) where state <> 'deleted';
create unique index dl_tables_location on dl_tables (location_key) where state not in ('deleted', 'detached');

create table dl_table_versions (
    table_id uuid not null references dl_tables (table_id),
    version bigint not null,
    committed_at bigint not null,
    committer text,
    operation text not null,
    operation_params text not null,
    operation_metrics text not null,
    in_commit_timestamp bigint,
    read_version bigint,
    is_blind_append boolean not null,
    commit_id text collate "C" not null,
    transaction_id text,
    adds bigint not null,
    removes bigint not null,
    actions bigint not null,
    bytes_added bigint not null,
    bytes_removed bigint not null,
    user_metadata text,
    client text,
    payload bytea,
    payload_bytes bigint not null,
    digest text not null,
    origin text not null check (origin in ('commit', 'import', 'adopted')),
    primary key (table_id, version)
);
-- The idempotency token: the same commit sent twice is one commit.
create unique index dl_table_versions_commit on dl_table_versions (table_id, commit_id);
create index dl_table_versions_transaction on dl_table_versions (transaction_id) where transaction_id is not null;
-- The payload comes compressed; the server's own compression would only cost time.
alter table dl_table_versions alter column payload set storage external;

-- Payloads above the chunk size, in pieces; dl_table_versions.payload is null for them.
create table dl_payload_chunks (
    table_id uuid not null,
    version bigint not null,
    chunk integer not null,
    payload bytea not null,
    primary key (table_id, version, chunk)
);
alter table dl_payload_chunks alter column payload set storage external;

-- The live files. Identity is (path key, dv_id); path_key is null where it equals the path.
create table dl_files (
    file_id bigint primary key,
    table_id uuid not null,
    path text collate "C" not null,
    path_key text collate "C",
    dv_id text collate "C" not null default '',
    size bigint not null,
    modification_time bigint not null,
    partition_values text collate "C" not null,
    stats text,
    num_records bigint,
    tags text,
    deletion_vector text,
    base_row_id bigint,
    default_row_commit_version bigint,
    clustering_provider text,
    data_change boolean not null,
    added_version bigint not null,
    extra text
);
create unique index dl_files_identity on dl_files (table_id, coalesce(path_key, path), dv_id);
create index dl_files_partition on dl_files (table_id, partition_values);
create index dl_files_added on dl_files (table_id, added_version);

-- Files that ended: removed (a tombstone) or superseded by an add of the same identity.
create table dl_removed_files (
    file_id bigint primary key,
    table_id uuid not null,
    path text collate "C" not null,
    path_key text collate "C",
    dv_id text collate "C" not null default '',
    size bigint,
    modification_time bigint,
    partition_values text collate "C",
    stats text,
    num_records bigint,
    tags text,
    deletion_vector text,
    base_row_id bigint,
    default_row_commit_version bigint,
    clustering_provider text,
    data_change boolean,
    added_version bigint,
    extra text,
    ended_version bigint not null,
    ended_by text not null check (ended_by in ('remove', 'superseded')),
    deletion_timestamp bigint,
    remove_data_change boolean,
    extended_file_metadata boolean
);
create index dl_removed_files_ended on dl_removed_files (table_id, ended_version);
create index dl_removed_files_identity on dl_removed_files (table_id, coalesce(path_key, path), dv_id);

-- Every combination of partition values a table ever had: filters on partitions are decided here,
-- by typed values, before any file is looked at.
create table dl_partitions (
    table_id uuid not null,
    partition_values text collate "C" not null,
    primary key (table_id, partition_values)
);

-- Which columns have their statistics indexed. A file added at or after since_version (and before
-- until_version) has exactly one row per column below, so a file without one is never lost.
create table dl_stats_columns (
    stats_key integer primary key,
    table_id uuid not null,
    column_name text collate "C" not null,
    column_type text not null,
    kind text not null check (kind in ('num', 'text')),
    since_version bigint not null,
    until_version bigint
);
create index dl_stats_columns_table on dl_stats_columns (table_id);

create table dl_stats_num (
    stats_key integer not null,
    low double precision not null,
    high double precision not null,
    file_id bigint not null
);
-- An overlap of ranges is no B-tree question. A flat box per file and column makes it one of
-- GiST's, with what every server has built in (no extension).
create index dl_stats_num_range on dl_stats_num
    using gist (box(point(low, stats_key), point(high, stats_key)));

create table dl_stats_text (
    stats_key integer not null,
    low text collate "C" not null,
    high text collate "C",
    file_id bigint not null
);
create index dl_stats_text_range on dl_stats_text (stats_key, low) include (high, file_id);

create table dl_metadata_updates (
    table_id uuid not null,
    version bigint not null,
    metadata_id text not null,
    name text,
    description text,
    format_provider text not null,
    schema_string text not null,
    partition_columns text not null,
    configuration text not null,
    created_time bigint,
    action text not null,
    primary key (table_id, version)
);

create table dl_protocol_updates (
    table_id uuid not null,
    version bigint not null,
    min_reader_version integer not null,
    min_writer_version integer not null,
    reader_features text,
    writer_features text,
    action text not null,
    primary key (table_id, version)
);

create table dl_domain_metadata (
    table_id uuid not null,
    domain text collate "C" not null,
    version bigint not null,
    configuration text not null,
    removed boolean not null,
    primary key (table_id, domain, version)
);

create table dl_txn_actions (
    table_id uuid not null,
    app_id text collate "C" not null,
    version bigint not null,
    txn_version bigint not null,
    last_updated bigint,
    primary key (table_id, app_id, version)
);

create table dl_txns (
    table_id uuid not null,
    app_id text collate "C" not null,
    txn_version bigint not null,
    last_updated bigint,
    primary key (table_id, app_id)
);

-- The queue of the mirror: written by the committing transaction itself.
create table dl_mirror_status (
    table_id uuid not null,
    version bigint not null,
    status text not null check (status in ('PENDING', 'SUCCESS', 'FAILED')),
    json_written boolean not null,
    checkpoint_written boolean not null,
    digest text not null,
    retry_count integer not null default 0,
    error_message text,
    last_attempt_at bigint,
    next_attempt_at bigint,
    updated_at bigint not null,
    primary key (table_id, version)
);
create index dl_mirror_status_due on dl_mirror_status (table_id, version) where status <> 'SUCCESS';

create table dl_log_files (
    table_id uuid not null,
    key text collate "C" not null,
    version bigint not null,
    kind text not null,
    size bigint not null,
    digest text not null,
    primary key (table_id, key)
);

create table dl_leases (
    table_id uuid not null,
    purpose text not null,
    holder text not null,
    fencing bigint not null,
    expires_at bigint not null,
    primary key (table_id, purpose)
);

-- Views for people: who did what, when.
create view dl_history as
select
    t.namespace,
    t.name,
    v.table_id,
    v.version,
    to_timestamp(v.committed_at / 1000.0) as committed_at,
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
