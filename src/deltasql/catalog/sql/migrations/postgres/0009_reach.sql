-- Ranges are found by a B-tree over their reach (catalog/reach.py). Rows from before, and those of
-- a writer of an older version, are unbounded: they are looked at for every filter.
alter table dl_stats_num add column reach smallint not null default 2000;
drop index dl_stats_num_range;
create index dl_stats_num_range on dl_stats_num (stats_key, reach, low) include (high, file_id);
