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
        end,
        state = new.state
    where table_id = new.table_id
    ; end;
