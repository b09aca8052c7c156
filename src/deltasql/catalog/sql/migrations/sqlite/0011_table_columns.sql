-- What deltasql itself knows of a table, in columns of its own instead of the table's properties.
-- Versions below history_floor were forgotten. A verification compares the log with SQL; verify_runs
-- counts those that ended, the three columns before it are null until the first one does.
alter table dl_tables add column history_floor integer not null default 0;
alter table dl_tables add column mirror_paused integer not null default 0;
alter table dl_tables add column verify_started_at integer;
alter table dl_tables add column verified_at integer;
alter table dl_tables add column verified_version integer;
alter table dl_tables add column findings integer;
alter table dl_tables add column verify_runs integer not null default 0;
update dl_tables set
    history_floor = coalesce(cast(properties ->> '$."deltasql.historyFloor"' as integer), 0),
    mirror_paused = coalesce(lower(properties ->> '$."deltasql.paused"') = 'true', 0),
    properties = json_remove(properties, '$."deltasql.historyFloor"', '$."deltasql.paused"')
where properties like '%deltasql.historyFloor%' or properties like '%deltasql.paused%';
update dl_tables set
    verify_started_at = v.started_at,
    verified_at = v.verified_at,
    verified_version = v.version,
    findings = v.findings
from dl_verifications v
where v.table_id = dl_tables.table_id;
drop table dl_verifications;

-- committed_at is the time that time travel goes by: the in-commit timestamp where there is one.
-- It rises with the versions, but for backdated ones, which logs of others may hold.
alter table dl_table_versions add column is_backdated integer not null default 0;
update dl_table_versions set committed_at = in_commit_timestamp
where in_commit_timestamp <> committed_at;
update dl_table_versions set is_backdated = 1
where (table_id, version) in (
    select v.table_id, v.version
    from (
        select
            table_id, version, committed_at,
            max(committed_at) over (
                partition by table_id order by version
                rows between unbounded preceding and 1 preceding
            ) as newest
        from dl_table_versions
    ) v
    where v.committed_at <= v.newest
);
create index dl_table_versions_time on dl_table_versions (table_id, committed_at)
where is_backdated = 0;
create index dl_table_versions_backdated on dl_table_versions (table_id, version)
where is_backdated = 1;
