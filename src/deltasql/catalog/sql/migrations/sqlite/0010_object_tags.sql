-- The size and entity tag of an object of the log when its bytes were found to be SQL's; null until
-- they are known (catalog/object_tags.py).
alter table dl_mirror_status add column object_size integer;
alter table dl_mirror_status add column object_tag text;
alter table dl_log_files add column object_tag text;
