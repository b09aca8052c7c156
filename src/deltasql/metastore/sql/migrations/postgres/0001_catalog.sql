-- What deltasql knows of Delta tables. Times that Delta itself has are its integers, milliseconds since
-- 1970 in UTC; times of deltasql's own are timestamps.

create table dl_catalog (
    only_row integer primary key check (only_row = 1),
    catalog_id uuid not null,
    epoch bigint not null,
    created_at timestamptz not null
);

-- A row instead of a sequence: a process takes a block of numbers in one step, and a sequence has no
-- step that takes many.
create table dl_counters (
    name text primary key,
    value bigint not null
);
insert into dl_counters (name, value) values ('file_id', 1), ('stats_key', 1);

create table dl_tables (
    table_key integer generated always as identity unique,
    table_id uuid primary key,
    namespace text collate "C" not null default '',
    name text collate "C" not null,
    location text not null,
    location_key text collate "C" not null,
    created_at timestamptz not null,
    current_version bigint not null,
    last_ict bigint not null,
    metadata_version bigint not null,
    protocol_version bigint not null,
    state text not null check (state in ('importing', 'read_only', 'active', 'conflict', 'detached', 'deleted')),
    first_version bigint not null,
    mirrored_through bigint not null,
    log_floor bigint not null,
    properties text not null default '{}',
    is_vacuuming boolean not null default false,
    is_purged boolean not null default false,
    epoch bigint not null default 1,
    history_floor bigint not null default 0,
    mirror_paused boolean not null default false,
    partitions_emptied bigint not null default -1,
    verify_started_at timestamptz,
    verified_at timestamptz,
    verified_version bigint,
    findings bigint,
    verify_runs bigint not null default 0
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
    is_backdated boolean not null default false,
    primary key (table_id, version)
);
-- The idempotency token: the same commit sent twice is one commit.
create unique index dl_table_versions_commit on dl_table_versions (table_id, commit_id);
create index dl_table_versions_transaction on dl_table_versions (transaction_id) where transaction_id is not null;
create index dl_table_versions_time on dl_table_versions (table_id, committed_at) where not is_backdated;
create index dl_table_versions_backdated on dl_table_versions (table_id, version) where is_backdated;
-- The payload comes compressed; the server's own compression would only cost time.
alter table dl_table_versions alter column payload set storage external;

create table dl_payload_chunks (
    table_id uuid not null,
    version bigint not null,
    chunk integer not null,
    payload bytea not null,
    primary key (table_id, version, chunk)
);
alter table dl_payload_chunks alter column payload set storage external;

-- A file is known by file_key: a hash, because paths and inline vectors are longer than an index takes.
create table dl_files (
    file_id bigint primary key,
    table_key integer not null,
    file_key uuid not null,
    path_hash uuid,
    path text collate "C" not null,
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
    unknown_fields text
);
create unique index dl_files_key on dl_files (table_key, file_key);
create index dl_files_path on dl_files (table_key, path_hash) where path_hash is not null;
create index dl_files_partition on dl_files (table_key, partition_values);
create index dl_files_added on dl_files (table_key, added_version);
-- Files that are named by a place of their own: they may lie in another table's folder.
create index dl_files_absolute on dl_files (table_key)
where strpos(path, ':/') > 0 or substr(path, 1, 1) = '/' or strpos(deletion_vector, '"p"') > 0;
-- Without statistics of these expressions the planner expects half of all files to be such files, and
-- reads the table instead of the index.
create statistics dl_files_absolute_uri on (strpos(path, ':/')) from dl_files;
create statistics dl_files_absolute_path on (substr(path, 1, 1)) from dl_files;
create statistics dl_files_absolute_vector on (strpos(deletion_vector, '"p"')) from dl_files;

create table dl_removed_files (
    file_id bigint primary key,
    table_key integer not null,
    file_key uuid not null,
    path_hash uuid,
    path text collate "C" not null,
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
    unknown_fields text,
    removed_version bigint not null,
    removal text not null check (removal in ('remove', 'replaced')),
    deletion_timestamp bigint,
    remove_data_change boolean,
    extended_file_metadata boolean,
    vacuumed_at timestamptz
);
create index dl_removed_files_removed on dl_removed_files (table_key, removed_version);
create index dl_removed_files_key on dl_removed_files (table_key, file_key);
create index dl_removed_files_absolute on dl_removed_files (table_key)
where strpos(path, ':/') > 0 or substr(path, 1, 1) = '/' or strpos(deletion_vector, '"p"') > 0;
create statistics dl_removed_files_absolute_uri on (strpos(path, ':/')) from dl_removed_files;
create statistics dl_removed_files_absolute_path on (substr(path, 1, 1)) from dl_removed_files;
create statistics dl_removed_files_absolute_vector on (strpos(deletion_vector, '"p"')) from dl_removed_files;

create table dl_partitions (
    table_key integer not null,
    partition_values text collate "C" not null,
    empty_since bigint,
    primary key (table_key, partition_values)
);

-- A file added at or after since_version (and before until_version) has exactly one row per column in
-- dl_stats_num or dl_stats_text, so that a file without one is never lost.
create table dl_stats_columns (
    stats_key integer primary key,
    table_key integer not null references dl_tables (table_key) on delete cascade,
    column_name text collate "C" not null,
    column_type text not null,
    kind text not null check (kind in ('num', 'text')),
    since_version bigint not null,
    until_version bigint,
    is_whole boolean not null default false
);
create index dl_stats_columns_table on dl_stats_columns (table_key);

-- Ranges are found by a B-tree over their reach (metastore/stats_index.py).
create table dl_stats_num (
    stats_key integer not null,
    reach smallint not null,
    low double precision not null,
    high double precision not null,
    file_id bigint not null
);
create index dl_stats_num_range on dl_stats_num (stats_key, reach, low) include (high, file_id);

create table dl_stats_text (
    stats_key integer not null,
    low text collate "C" not null,
    high text collate "C",
    file_id bigint not null
);
create index dl_stats_text_range on dl_stats_text (stats_key, low) include (high, file_id);

create table dl_metadata_updates (
    table_id uuid not null references dl_tables (table_id) on delete cascade,
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
    table_id uuid not null references dl_tables (table_id) on delete cascade,
    version bigint not null,
    min_reader_version integer not null,
    min_writer_version integer not null,
    reader_features text,
    writer_features text,
    action text not null,
    primary key (table_id, version)
);

create table dl_domain_metadata (
    table_id uuid not null references dl_tables (table_id) on delete cascade,
    domain text collate "C" not null,
    version bigint not null,
    configuration text not null,
    removed boolean not null,
    primary key (table_id, domain, version)
);

create table dl_txn_actions (
    table_id uuid not null references dl_tables (table_id) on delete cascade,
    app_id text collate "C" not null,
    version bigint not null,
    txn_version bigint not null,
    last_updated bigint,
    primary key (table_id, app_id, version)
);

create table dl_mirror_status (
    table_id uuid not null,
    version bigint not null,
    status text not null check (status in ('PENDING', 'SUCCESS', 'FAILED')),
    json_written boolean not null,
    checkpoint_written boolean not null,
    digest text not null,
    retry_count integer not null default 0,
    error_message text,
    last_attempt_at timestamptz,
    next_attempt_at timestamptz,
    updated_at timestamptz not null,
    object_size bigint,
    object_tag text,
    primary key (table_id, version)
);

create table dl_log_files (
    table_id uuid not null references dl_tables (table_id) on delete cascade,
    key text collate "C" not null,
    version bigint not null,
    kind text not null,
    size bigint not null,
    digest text not null,
    num_rows bigint,
    num_adds bigint,
    object_tag text,
    primary key (table_id, key)
);

create table dl_leases (
    table_id uuid not null references dl_tables (table_id) on delete cascade,
    purpose text not null,
    holder text not null,
    fencing bigint not null,
    started_at timestamptz,
    expires_at timestamptz not null,
    primary key (table_id, purpose)
);

create table dl_imports (
    table_id uuid primary key references dl_tables (table_id) on delete cascade,
    segment text,
    checkpoint text,
    checkpoint_parts bigint not null default 0,
    claim_version bigint,
    claim text
);

create table dl_vacuum_marks (
    table_id uuid not null references dl_tables (table_id) on delete cascade,
    key text collate "C" not null,
    primary key (table_id, key)
);

-- Views for people.
create view dl_history as
select
    t.namespace,
    t.name,
    t.state = 'deleted' as is_dropped,
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
select
    t.namespace, t.name, t.state = 'deleted' as is_dropped, t.table_id, c.version,
    to_timestamp(v.committed_at / 1000.0) as committed_at, v.operation, c.change, c.path, c.dv_id, c.size,
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
    to_timestamp(v.committed_at / 1000.0) as oldest_unmirrored_at,
    s.status,
    s.retry_count,
    s.last_attempt_at as last_attempt_at,
    s.next_attempt_at as next_attempt_at,
    s.error_message
from dl_tables t
left join dl_table_versions v on v.table_id = t.table_id and v.version = t.mirrored_through + 1
left join dl_mirror_status s on s.table_id = t.table_id and s.version = t.mirrored_through + 1
where t.state <> 'deleted';

-- A blind append as one call: lock, check what stands in the locked row, take version and time,
-- write all rows. It returns no row where the table is not as the caller knows it.
-- The commit's bytes come in pieces, cut where its time stands.
create function dl_append(
    p_table_id uuid, p_epoch bigint, p_metadata_version bigint, p_protocol_version bigint,
    p_partitions_emptied bigint, p_ceiling bigint, p_pieces text[], p_has_own_time boolean,
    p_committer text, p_operation text, p_operation_params text, p_operation_metrics text,
    p_read_version bigint, p_commit_id text, p_user_metadata text, p_client text,
    f_file_id bigint[], f_file_key uuid[], f_path text[], f_size bigint[], f_modification_time bigint[],
    f_partition_values text[], f_stats text[], f_num_records bigint[],
    n_stats_key integer[], n_reach smallint[], n_low float8[], n_high float8[], n_file_id bigint[],
    s_stats_key integer[], s_low text[], s_high text[], s_file_id bigint[],
    p_partitions text[],
    out changed dl_tables, out digest text
) returns setof record language plpgsql volatile as $$
declare
    moment bigint;
    bytes bytea;
begin
    select * into changed from dl_tables t where t.table_id = p_table_id for no key update;
    moment := greatest(
        (extract(epoch from clock_timestamp()) * 1000)::bigint, changed.last_ict + 1
    );
    if changed.table_id is null or changed.state <> 'active' or changed.is_vacuuming
        or changed.epoch <> p_epoch or changed.metadata_version <> p_metadata_version
        or changed.protocol_version <> p_protocol_version
        or changed.partitions_emptied <> p_partitions_emptied or moment >= p_ceiling
    then
        return;
    end if;
    update dl_tables t set current_version = t.current_version + 1, last_ict = moment
    where t.table_id = p_table_id
    returning t.* into changed;
    bytes := convert_to(array_to_string(p_pieces, moment::text), 'UTF8');
    digest := encode(sha256(bytes), 'hex');
    insert into dl_files (
        file_id, table_key, file_key, path, size, modification_time, partition_values, stats,
        num_records, data_change, added_version
    )
    select
        f.file_id, changed.table_key, f.file_key, f.path, f.size, f.time, f.partition, f.stats,
        f.records, true, changed.current_version
    from unnest(
        f_file_id, f_file_key, f_path, f_size, f_modification_time, f_partition_values, f_stats,
        f_num_records
    ) f (file_id, file_key, path, size, time, partition, stats, records);
    insert into dl_stats_num (stats_key, reach, low, high, file_id)
    select * from unnest(n_stats_key, n_reach, n_low, n_high, n_file_id);
    insert into dl_stats_text (stats_key, low, high, file_id)
    select * from unnest(s_stats_key, s_low, s_high, s_file_id);
    if cardinality(p_partitions) > 0 then
        insert into dl_partitions (table_key, partition_values)
        select changed.table_key, u from unnest(p_partitions) u
        on conflict (table_key, partition_values) do update set empty_since = null
        where dl_partitions.empty_since is not null;
    end if;
    insert into dl_table_versions (
        table_id, version, committed_at, committer, operation, operation_params,
        operation_metrics, in_commit_timestamp, read_version, is_blind_append, commit_id, adds,
        removes, actions, bytes_added, bytes_removed, user_metadata, client, payload,
        payload_bytes, digest, origin
    ) values (
        p_table_id, changed.current_version, moment, p_committer, p_operation, p_operation_params,
        p_operation_metrics, case when p_has_own_time then moment end, p_read_version, true,
        p_commit_id, cardinality(f_file_id), 0, cardinality(f_file_id) + 1,
        (select sum(size) from unnest(f_size) size), 0, p_user_metadata, p_client, bytes,
        length(bytes), digest, 'commit'
    );
    insert into dl_mirror_status (
        table_id, version, status, json_written, checkpoint_written, digest, retry_count, updated_at
    ) values (
        p_table_id, changed.current_version, 'PENDING', false, false, digest, 0,
        to_timestamp(moment / 1000.0)
    );
    return next;
end $$;

-- The reference page of the schema is made of these sentences.
comment on table dl_catalog is
    'The catalog itself; one row.';
comment on column dl_catalog.only_row is
    'Always 1.';
comment on column dl_catalog.catalog_id is
    'The id of the catalog; logs that it owns name it.';
comment on column dl_catalog.epoch is
    'Grows when the catalog is recovered; what was opened under an older epoch can no longer commit.';
comment on column dl_catalog.created_at is
    'When the catalog was made.';
comment on table dl_counters is
    'The next numbers that deltasql gives out.';
comment on column dl_counters.name is
    'Which number: file_id or stats_key.';
comment on column dl_counters.value is
    'The next one.';
comment on table dl_tables is
    'The tables; a dropped one keeps its row.';
comment on column dl_tables.table_key is
    'A short number for the table in the tables that have a row per file.';
comment on column dl_tables.table_id is
    'The id of the table.';
comment on column dl_tables.namespace is
    'The part of the name before the last dot; empty where there is none.';
comment on column dl_tables.name is
    'The name of the table.';
comment on column dl_tables.location is
    'Where the table lies, as it was given.';
comment on column dl_tables.location_key is
    'The same place in one spelling, by which places are compared.';
comment on column dl_tables.created_at is
    'When the table came into the catalog.';
comment on column dl_tables.current_version is
    'The newest version; -1 before the first.';
comment on column dl_tables.last_ict is
    'The newest time of a commit; the next one is later.';
comment on column dl_tables.metadata_version is
    'The version with the newest metaData action.';
comment on column dl_tables.protocol_version is
    'The version with the newest protocol action.';
comment on column dl_tables.state is
    'What may be done with the table.';
comment on column dl_tables.first_version is
    'The oldest version that the catalog was given.';
comment on column dl_tables.mirrored_through is
    'The newest version up to which the log has everything.';
comment on column dl_tables.log_floor is
    'The oldest commit that the log still has.';
comment on column dl_tables.properties is
    'What deltasql records about the table, as JSON; import_metadata is about its import.';
comment on column dl_tables.is_vacuuming is
    'Whether objects of the table are marked in dl_vacuum_marks; commits look there then.';
comment on column dl_tables.is_purged is
    'Whether the table was dropped with its files: what is at its location now is not its own.';
comment on column dl_tables.epoch is
    'The epoch that commits are checked against.';
comment on column dl_tables.history_floor is
    'Versions below it were forgotten.';
comment on column dl_tables.mirror_paused is
    'Whether an operator has paused the mirror of the table.';
comment on column dl_tables.partitions_emptied is
    'The newest version that took the last file of a combination in dl_partitions.';
comment on column dl_tables.verify_started_at is
    'When the last verification of the log began.';
comment on column dl_tables.verified_at is
    'When the last verification ended.';
comment on column dl_tables.verified_version is
    'The version that it went up to.';
comment on column dl_tables.findings is
    'How many differences it found.';
comment on column dl_tables.verify_runs is
    'How many verifications have ended.';
comment on table dl_table_versions is
    'One row per version: who, what, when, and the exact bytes of the commit.';
comment on column dl_table_versions.table_id is
    'The table.';
comment on column dl_table_versions.version is
    'The version.';
comment on column dl_table_versions.committed_at is
    'The time that time travel goes by: the in-commit timestamp where there is one; milliseconds since 1970 in UTC.';
comment on column dl_table_versions.committer is
    'Who committed.';
comment on column dl_table_versions.operation is
    'The operation, such as WRITE.';
comment on column dl_table_versions.operation_params is
    'Its parameters, as JSON.';
comment on column dl_table_versions.operation_metrics is
    'Its metrics, as JSON.';
comment on column dl_table_versions.in_commit_timestamp is
    'The time that the commit itself carries; null where the table has none.';
comment on column dl_table_versions.read_version is
    'The version that the commit was based on.';
comment on column dl_table_versions.is_blind_append is
    'Whether it only added files and read none.';
comment on column dl_table_versions.commit_id is
    'The token of the commit: sent twice, it is made once.';
comment on column dl_table_versions.transaction_id is
    'Shared by the commits of one transaction over several tables.';
comment on column dl_table_versions.adds is
    'Files added.';
comment on column dl_table_versions.removes is
    'Files removed.';
comment on column dl_table_versions.actions is
    'Actions in the commit, commitInfo not counted.';
comment on column dl_table_versions.bytes_added is
    'Bytes of the files added.';
comment on column dl_table_versions.bytes_removed is
    'Bytes of the files removed.';
comment on column dl_table_versions.user_metadata is
    'What the committer wrote beside it.';
comment on column dl_table_versions.client is
    'The program that committed.';
comment on column dl_table_versions.payload is
    'The bytes of the commit, compressed by zstd or plain; null where they are in dl_payload_chunks.';
comment on column dl_table_versions.payload_bytes is
    'How many bytes they are, not compressed.';
comment on column dl_table_versions.digest is
    'Their SHA-256 in hexadecimal.';
comment on column dl_table_versions.origin is
    'Whether deltasql committed the version, imported it or adopted it from the log.';
comment on column dl_table_versions.is_backdated is
    'Whether an earlier version has the same time or a later one; only logs of other writers have such.';
comment on table dl_payload_chunks is
    'The bytes of very large commits, in pieces.';
comment on column dl_payload_chunks.table_id is
    'The table.';
comment on column dl_payload_chunks.version is
    'The version.';
comment on column dl_payload_chunks.chunk is
    'The number of the piece, from 0.';
comment on column dl_payload_chunks.payload is
    'The piece.';
comment on table dl_files is
    'The live files, with the fields of their add actions.';
comment on column dl_files.file_id is
    'The number of the file in this catalog.';
comment on column dl_files.table_key is
    'The table.';
comment on column dl_files.file_key is
    '16 bytes of BLAKE2b over the path in one spelling and the id of the deletion vector: what the file is known by.';
comment on column dl_files.path_hash is
    'The file_key that the file would have without its deletion vector; null where it has none.';
comment on column dl_files.path is
    'The path, as the log spells it.';
comment on column dl_files.dv_id is
    'The id of the deletion vector; empty where there is none.';
comment on column dl_files.size is
    'Its size in bytes.';
comment on column dl_files.modification_time is
    'When it was made, as the add says; milliseconds since 1970 in UTC.';
comment on column dl_files.partition_values is
    'Its partition values, as JSON.';
comment on column dl_files.stats is
    'Its statistics, as JSON, as the log spells them.';
comment on column dl_files.num_records is
    'The number of rows, from the statistics.';
comment on column dl_files.tags is
    'Its tags, as JSON.';
comment on column dl_files.deletion_vector is
    'Its deletion vector, as JSON.';
comment on column dl_files.base_row_id is
    'The id of its first row, where the table tracks rows.';
comment on column dl_files.default_row_commit_version is
    'The version of its rows, where the table tracks rows.';
comment on column dl_files.clustering_provider is
    'Who clustered it.';
comment on column dl_files.data_change is
    'Whether it changed the data.';
comment on column dl_files.added_version is
    'The version that added it.';
comment on column dl_files.unknown_fields is
    'Fields of the add that deltasql does not know, as JSON.';
comment on table dl_removed_files is
    'Files that are no longer live: for time travel, and as the tombstones of checkpoints.';
comment on column dl_removed_files.file_id is
    'The number of the file in this catalog.';
comment on column dl_removed_files.table_key is
    'The table.';
comment on column dl_removed_files.file_key is
    'As in dl_files.';
comment on column dl_removed_files.path_hash is
    'As in dl_files.';
comment on column dl_removed_files.path is
    'As in dl_files.';
comment on column dl_removed_files.dv_id is
    'As in dl_files.';
comment on column dl_removed_files.size is
    'As in dl_files.';
comment on column dl_removed_files.modification_time is
    'As in dl_files.';
comment on column dl_removed_files.partition_values is
    'As in dl_files.';
comment on column dl_removed_files.stats is
    'As in dl_files.';
comment on column dl_removed_files.num_records is
    'As in dl_files.';
comment on column dl_removed_files.tags is
    'As in dl_files.';
comment on column dl_removed_files.deletion_vector is
    'As in dl_files.';
comment on column dl_removed_files.base_row_id is
    'As in dl_files.';
comment on column dl_removed_files.default_row_commit_version is
    'As in dl_files.';
comment on column dl_removed_files.clustering_provider is
    'As in dl_files.';
comment on column dl_removed_files.data_change is
    'As in dl_files.';
comment on column dl_removed_files.added_version is
    'The version that added it; null where no version that the catalog has did.';
comment on column dl_removed_files.unknown_fields is
    'As in dl_files.';
comment on column dl_removed_files.removed_version is
    'The version that removed or replaced it.';
comment on column dl_removed_files.removal is
    'Whether a remove action ended it, or an add of the same path and vector replaced it.';
comment on column dl_removed_files.deletion_timestamp is
    'When, as the remove says; milliseconds since 1970 in UTC.';
comment on column dl_removed_files.remove_data_change is
    'Whether the removal changed the data.';
comment on column dl_removed_files.extended_file_metadata is
    'Whether the remove carried the size, partition values and tags.';
comment on column dl_removed_files.vacuumed_at is
    'When vacuum deleted its object, or was about to; versions that need it cannot be read since.';
comment on table dl_partitions is
    'The combinations of partition values that a table has: filters on partitions are decided here, by typed values, before any file is looked at.';
comment on column dl_partitions.table_key is
    'The table.';
comment on column dl_partitions.partition_values is
    'The combination, as JSON.';
comment on column dl_partitions.empty_since is
    'The version that took its last file; null while it may have files.';
comment on table dl_stats_columns is
    'Which columns have their statistics indexed.';
comment on column dl_stats_columns.stats_key is
    'The number of the column in the index.';
comment on column dl_stats_columns.table_key is
    'The table.';
comment on column dl_stats_columns.column_name is
    'The physical name of the column.';
comment on column dl_stats_columns.column_type is
    'Its type.';
comment on column dl_stats_columns.kind is
    'Which of the two index tables its rows are in.';
comment on column dl_stats_columns.since_version is
    'Files added by this version or later have their row.';
comment on column dl_stats_columns.until_version is
    'Files added by this version or later have none; null while the column is indexed.';
comment on column dl_stats_columns.is_whole is
    'Whether all files that were live at since_version have their row, too.';
comment on table dl_stats_num is
    'Numeric bounds of indexed columns, one row per file and column.';
comment on column dl_stats_num.stats_key is
    'The column, see dl_stats_columns.';
comment on column dl_stats_num.reach is
    'The power of two above high minus low: 0 for a point, 2000 for no bound.';
comment on column dl_stats_num.low is
    'The lower bound.';
comment on column dl_stats_num.high is
    'The upper bound.';
comment on column dl_stats_num.file_id is
    'The file.';
comment on table dl_stats_text is
    'Bounds of indexed text columns, one row per file and column.';
comment on column dl_stats_text.stats_key is
    'The column, see dl_stats_columns.';
comment on column dl_stats_text.low is
    'The lower bound.';
comment on column dl_stats_text.high is
    'The upper bound; null where there is none.';
comment on column dl_stats_text.file_id is
    'The file.';
comment on table dl_metadata_updates is
    'One row per metaData action: the schema and the properties over time.';
comment on column dl_metadata_updates.table_id is
    'The table.';
comment on column dl_metadata_updates.version is
    'The version.';
comment on column dl_metadata_updates.metadata_id is
    'The id that the metadata itself names.';
comment on column dl_metadata_updates.name is
    'The name that it gives the table.';
comment on column dl_metadata_updates.description is
    'The description.';
comment on column dl_metadata_updates.format_provider is
    'The format of the files, parquet.';
comment on column dl_metadata_updates.schema_string is
    'The schema, as JSON.';
comment on column dl_metadata_updates.partition_columns is
    'The partition columns, as a JSON array.';
comment on column dl_metadata_updates.configuration is
    'The table properties, as JSON.';
comment on column dl_metadata_updates.created_time is
    'When the table was made, as the metadata says; milliseconds since 1970 in UTC.';
comment on column dl_metadata_updates.action is
    'The whole action, as JSON.';
comment on table dl_protocol_updates is
    'One row per protocol action.';
comment on column dl_protocol_updates.table_id is
    'The table.';
comment on column dl_protocol_updates.version is
    'The version.';
comment on column dl_protocol_updates.min_reader_version is
    'The reader version.';
comment on column dl_protocol_updates.min_writer_version is
    'The writer version.';
comment on column dl_protocol_updates.reader_features is
    'The reader features, as a JSON array.';
comment on column dl_protocol_updates.writer_features is
    'The writer features, as a JSON array.';
comment on column dl_protocol_updates.action is
    'The whole action, as JSON.';
comment on table dl_domain_metadata is
    'One row per domainMetadata action; the newest of a domain counts.';
comment on column dl_domain_metadata.table_id is
    'The table.';
comment on column dl_domain_metadata.domain is
    'The domain.';
comment on column dl_domain_metadata.version is
    'The version.';
comment on column dl_domain_metadata.configuration is
    'Its configuration.';
comment on column dl_domain_metadata.removed is
    'Whether the domain was removed.';
comment on table dl_txn_actions is
    'One row per txn action; the newest of an application counts.';
comment on column dl_txn_actions.table_id is
    'The table.';
comment on column dl_txn_actions.app_id is
    'The application.';
comment on column dl_txn_actions.version is
    'The version.';
comment on column dl_txn_actions.txn_version is
    'How far the application has written.';
comment on column dl_txn_actions.last_updated is
    'When, as the action says; milliseconds since 1970 in UTC.';
comment on table dl_mirror_status is
    'The queue of the mirror: one row per version, written by the commit itself.';
comment on column dl_mirror_status.table_id is
    'The table.';
comment on column dl_mirror_status.version is
    'The version.';
comment on column dl_mirror_status.status is
    'Where the version stands.';
comment on column dl_mirror_status.json_written is
    'Whether its commit is in the log.';
comment on column dl_mirror_status.checkpoint_written is
    'Whether a checkpoint of it is in the log.';
comment on column dl_mirror_status.digest is
    'The SHA-256 of the commit that is to be written.';
comment on column dl_mirror_status.retry_count is
    'How often writing it has failed.';
comment on column dl_mirror_status.error_message is
    'Why it failed last.';
comment on column dl_mirror_status.last_attempt_at is
    'When it was last tried.';
comment on column dl_mirror_status.next_attempt_at is
    'When it is tried again.';
comment on column dl_mirror_status.updated_at is
    'When the row last changed.';
comment on column dl_mirror_status.object_size is
    'The size of the object when its bytes were found to be SQL''s; null until that is known.';
comment on column dl_mirror_status.object_tag is
    'Its ETag at that time.';
comment on table dl_log_files is
    'What else deltasql wrote to the log: checkpoints, sidecars and checksums.';
comment on column dl_log_files.table_id is
    'The table.';
comment on column dl_log_files.key is
    'The name of the object.';
comment on column dl_log_files.version is
    'The version that it belongs to.';
comment on column dl_log_files.kind is
    'What it is.';
comment on column dl_log_files.size is
    'Its size in bytes.';
comment on column dl_log_files.digest is
    'Its SHA-256 in hexadecimal.';
comment on column dl_log_files.num_rows is
    'The rows of a checkpoint.';
comment on column dl_log_files.num_adds is
    'The live files in it.';
comment on column dl_log_files.object_tag is
    'Its ETag; null until it is known.';
comment on table dl_leases is
    'Who is at work on a table: a lease of each purpose, and one for each write that takes long.';
comment on column dl_leases.table_id is
    'The table.';
comment on column dl_leases.purpose is
    'What for: checkpoint, verify, repair, purge and so on; write: and an id for a write in flight.';
comment on column dl_leases.holder is
    'The process that has it.';
comment on column dl_leases.fencing is
    'Grows each time the lease is taken, so that a former holder is recognised.';
comment on column dl_leases.started_at is
    'When a write in flight began: what was written since is no orphan.';
comment on column dl_leases.expires_at is
    'When it ends unless it is renewed.';
comment on table dl_imports is
    'Imports and cut-overs that have begun and not ended.';
comment on column dl_imports.table_id is
    'The table.';
comment on column dl_imports.segment is
    'The versions that are being loaded window by window, and by which run.';
comment on column dl_imports.checkpoint is
    'The checkpoint whose state is being loaded.';
comment on column dl_imports.checkpoint_parts is
    'How many parts of it are in.';
comment on column dl_imports.claim_version is
    'The version with which a cut-over takes the log over.';
comment on column dl_imports.claim is
    'The bytes of that commit, from before it is put until it has won or lost.';
comment on table dl_vacuum_marks is
    'Objects that are about to be deleted, from before the first delete until after the last.';
comment on column dl_vacuum_marks.table_id is
    'The table.';
comment on column dl_vacuum_marks.key is
    'The name of the object.';
comment on view dl_history is
    'Who did what, when: every version of every table, dropped ones too.';
comment on view dl_file_changes is
    'Every file that came or went, with the name of its table, the time and the operation.';
comment on view dl_mirror_lag is
    'How far the log of each table is behind.';
