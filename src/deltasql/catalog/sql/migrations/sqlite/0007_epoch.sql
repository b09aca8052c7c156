-- The epoch that commits are checked against, in the row that they lock.
alter table dl_tables add column epoch integer not null default 1;
update dl_tables set epoch = (select c.epoch from dl_catalog c);
