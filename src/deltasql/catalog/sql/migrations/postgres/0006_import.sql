-- Rows of an import's tasks on their way to its driver, as bytes. Not logged: a crash of the server
-- empties it, and the tasks are done again. The row with task -1 says that the import goes on.
create unlogged table dl_import_stage (
    import_id uuid not null,
    task bigint not null,
    attempt bigint not null,
    chunk bigint not null,
    payload bytea not null,
    primary key (import_id, task, attempt, chunk)
);
-- The bytes are compressed already.
alter table dl_import_stage alter column payload set storage external;
-- All files that are live at since_version have their row too, not only those that came later.
alter table dl_stats_columns add column is_whole boolean not null default false;
