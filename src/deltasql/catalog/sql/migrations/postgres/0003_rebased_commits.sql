-- Commits that gave their number to a foreign one and stand above it now: what they were before,
-- with their exact bytes. A table may be renumbered more than once; `renumbering` counts.
create table dl_rebased_commits (
    table_id uuid not null references dl_tables (table_id),
    renumbering bigint not null,
    old_version bigint not null,
    new_version bigint not null,
    commit_id text collate "C" not null,
    committed_at bigint not null,
    committer text,
    operation text not null,
    transaction_id text,
    payload bytea,
    payload_bytes bigint not null,
    digest text not null,
    rebased_at bigint not null,
    primary key (table_id, renumbering, old_version)
);
create index dl_rebased_commits_token on dl_rebased_commits (table_id, commit_id);
alter table dl_rebased_commits alter column payload set storage external;

-- Payloads above the chunk size, in pieces; dl_rebased_commits.payload is null for them.
create table dl_rebased_chunks (
    table_id uuid not null,
    renumbering bigint not null,
    old_version bigint not null,
    chunk integer not null,
    payload bytea not null,
    primary key (table_id, renumbering, old_version, chunk)
);
alter table dl_rebased_chunks alter column payload set storage external;
