-- When a worker last compared a table's log with SQL, and what it found; null until the first end.
create table dl_verifications (
    table_id uuid primary key,
    started_at bigint not null,
    verified_at bigint,
    version bigint,
    findings bigint
);
