-- Commits that gave their number to a foreign one and stand above it now: what they were before,
-- with their exact bytes. A table may be renumbered more than once; `renumbering` counts.
create table dl_rebased_commits (
    table_id text not null references dl_tables (table_id),
    renumbering integer not null,
    old_version integer not null,
    new_version integer not null,
    commit_id text not null,
    committed_at integer not null,
    committer text,
    operation text not null,
    transaction_id text,
    payload blob,
    payload_bytes integer not null,
    digest text not null,
    rebased_at integer not null,
    primary key (table_id, renumbering, old_version)
) strict;
create index dl_rebased_commits_token on dl_rebased_commits (table_id, commit_id);

-- Payloads above the chunk size, in pieces; dl_rebased_commits.payload is null for them.
create table dl_rebased_chunks (
    table_id text not null,
    renumbering integer not null,
    old_version integer not null,
    chunk integer not null,
    payload blob not null,
    primary key (table_id, renumbering, old_version, chunk)
) strict;
