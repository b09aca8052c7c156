-- What deltasql itself knows of a table, in columns of its own instead of the table's properties.
-- Versions below history_floor were forgotten. A verification compares the log with SQL; verify_runs
-- counts those that ended, the three columns before it are null until the first one does.
alter table dl_tables
    add column history_floor bigint not null default 0,
    add column mirror_paused boolean not null default false,
    add column verify_started_at bigint,
    add column verified_at bigint,
    add column verified_version bigint,
    add column findings bigint,
    add column verify_runs bigint not null default 0;
update dl_tables set
    history_floor = coalesce((properties::jsonb ->> 'deltasql.historyFloor')::bigint, 0),
    mirror_paused = coalesce(lower(properties::jsonb ->> 'deltasql.paused') = 'true', false),
    properties = (properties::jsonb - 'deltasql.historyFloor' - 'deltasql.paused')::text
where properties like '%deltasql.historyFloor%' or properties like '%deltasql.paused%';
update dl_tables t set
    verify_started_at = v.started_at,
    verified_at = v.verified_at,
    verified_version = v.version,
    findings = v.findings
from dl_verifications v
where v.table_id = t.table_id;
drop table dl_verifications;

-- committed_at is the time that time travel goes by: the in-commit timestamp where there is one.
-- It rises with the versions, but for backdated ones, which logs of others may hold.
alter table dl_table_versions add column is_backdated boolean not null default false;
update dl_table_versions set committed_at = in_commit_timestamp
where in_commit_timestamp <> committed_at;
update dl_table_versions set is_backdated = true
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
where not is_backdated;
create index dl_table_versions_backdated on dl_table_versions (table_id, version)
where is_backdated;
