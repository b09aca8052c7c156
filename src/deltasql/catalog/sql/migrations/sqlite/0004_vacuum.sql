-- Set while objects of the table are marked below: a commit looks there before it adds files.
alter table dl_tables add column is_vacuuming integer not null default 0;

-- Objects that are about to be deleted, from before the first delete until after the last.
create table dl_vacuum_marks (
    table_id text not null,
    key text not null,
    primary key (table_id, key)
) strict;

-- Ended files whose objects vacuum has deleted, or is about to: their versions cannot be read.
create table dl_vacuumed_files (
    file_id integer primary key,
    table_id text not null,
    vacuumed_at integer not null
) strict;

-- Writers at work for long: what they have written and not yet committed is no orphan.
create table dl_open_work (
    work_id text primary key,
    table_id text not null,
    holder text not null,
    started_at integer not null,
    expires_at integer not null
) strict;
create index dl_open_work_table on dl_open_work (table_id);

-- Files that are named by a place of their own: they may lie in another table's folder.
create index dl_files_absolute on dl_files (table_id)
where instr(path, ':/') > 0 or substr(path, 1, 1) = '/' or instr(deletion_vector, '"p"') > 0;
create index dl_removed_files_absolute on dl_removed_files (table_id)
where instr(path, ':/') > 0 or substr(path, 1, 1) = '/' or instr(deletion_vector, '"p"') > 0;
