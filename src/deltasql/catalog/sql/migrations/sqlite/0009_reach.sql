-- Ranges are found by a B-tree over their reach (catalog/reach.py). Rows from before, and those of
-- a writer of an older version, are unbounded: they are looked at for every filter.
create table dl_stats_num_by_reach (
    stats_key integer not null,
    reach integer not null default 2000,
    low real not null,
    high real not null,
    file_id integer not null,
    primary key (stats_key, reach, low, high, file_id)
) strict, without rowid;
insert into dl_stats_num_by_reach (stats_key, low, high, file_id)
select stats_key, low, high, file_id from dl_stats_num;
drop table dl_stats_num;
alter table dl_stats_num_by_reach rename to dl_stats_num;
