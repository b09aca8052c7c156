-- What a checkpoint holds, so that its hint can be written again without reading it.
alter table dl_log_files add column num_rows bigint;
alter table dl_log_files add column num_adds bigint;
