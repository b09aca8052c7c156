-- When a worker last compared a table's log with SQL, and what it found; null until the first end.
create table dl_verifications (
    table_id text primary key,
    started_at integer not null,
    verified_at integer,
    version integer,
    findings integer
) strict;
