-- All files that are live at since_version have their row too, not only those that came later.
alter table dl_stats_columns add column is_whole integer not null default 0;
