-- A blind append as one call: lock, check what stands in the locked row, take version and time,
-- write all rows. It returns no row where the table is not as the caller knows it.
-- The commit's bytes come in pieces, cut where its time stands.
create function dl_append(
    p_table_id uuid, p_epoch bigint, p_metadata_version bigint, p_protocol_version bigint,
    p_ceiling bigint, p_pieces text[], p_has_own_time boolean,
    p_committer text, p_operation text, p_operation_params text, p_operation_metrics text,
    p_read_version bigint, p_commit_id text, p_user_metadata text, p_client text,
    f_file_id bigint[], f_path text[], f_size bigint[], f_modification_time bigint[],
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
    select * into changed from dl_tables t where t.table_id = p_table_id for update;
    moment := greatest(
        (extract(epoch from clock_timestamp()) * 1000)::bigint, changed.last_ict + 1
    );
    if changed.table_id is null or changed.state <> 'active' or changed.is_vacuuming
        or changed.epoch <> p_epoch or changed.metadata_version <> p_metadata_version
        or changed.protocol_version <> p_protocol_version or moment >= p_ceiling
    then
        return;
    end if;
    update dl_tables t set current_version = t.current_version + 1, last_ict = moment
    where t.table_id = p_table_id
    returning t.* into changed;
    bytes := convert_to(array_to_string(p_pieces, moment::text), 'UTF8');
    digest := encode(sha256(bytes), 'hex');
    insert into dl_files (
        file_id, table_id, path, size, modification_time, partition_values, stats, num_records,
        data_change, added_version
    )
    select u.*, true, changed.current_version
    from (
        select f.file_id, p_table_id, f.path, f.size, f.time, f.partition, f.stats, f.records
        from unnest(
            f_file_id, f_path, f_size, f_modification_time, f_partition_values, f_stats,
            f_num_records
        ) f (file_id, path, size, time, partition, stats, records)
    ) u;
    insert into dl_stats_num (stats_key, reach, low, high, file_id)
    select * from unnest(n_stats_key, n_reach, n_low, n_high, n_file_id);
    insert into dl_stats_text (stats_key, low, high, file_id)
    select * from unnest(s_stats_key, s_low, s_high, s_file_id);
    if cardinality(p_partitions) > 0 then
        insert into dl_partitions (table_id, partition_values)
        select p_table_id, u from unnest(p_partitions) u
        on conflict do nothing;
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
    ) values (p_table_id, changed.current_version, 'PENDING', false, false, digest, 0, moment);
    return next;
end $$;
