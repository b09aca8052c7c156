-- The roles of a catalog, each with the smallest rights with which it does its whole work.
--
--   psql -v schema=deltasql -f roles.sql "dbname=lake user=postgres"
--
-- Run it before `deltasql db init`, again after it, and again after every `deltasql db migrate`;
-- repeating it does no harm. Whoever runs it may create roles and grant on the catalog's tables.
--
--   schema   the PostgreSQL schema of the catalog            (deltasql)
--   prefix   what the roles' names begin with; two catalogs of one server need two  (deltasql)
--   owner    who owns the tables: whoever ran `db init`, where that was somebody else  (<prefix>_owner)
--
-- A login gets one of the roles, not two: an operator may do what writers and workers may, and
-- what a role is kept from, a login is kept from that has it besides another.

\set ON_ERROR_STOP on
\if :{?schema}
\else
  \set schema deltasql
\endif
\if :{?prefix}
\else
  \set prefix deltasql
\endif
\if :{?owner}
\else
  \set owner :prefix _owner
\endif
\set reader :prefix _reader
\set writer :prefix _writer
\set worker :prefix _worker
\set operator :prefix _operator

begin;
set local client_min_messages = warning;

select format('create role %I nologin', wanted.name)
from unnest(array[:'owner', :'reader', :'writer', :'worker', :'operator']) wanted (name)
where not exists (select from pg_catalog.pg_roles r where r.rolname = wanted.name)
\gexec

create schema if not exists :"schema" authorization :"owner";
grant connect on database :"DBNAME" to :"owner", :"reader", :"writer", :"worker", :"operator";
-- Imports, adoption, cut-overs and recovery match files by temporary tables.
grant temporary on database :"DBNAME" to :"operator";
grant usage on schema :"schema" to :"reader", :"writer", :"worker", :"operator";
grant usage, create on schema :"schema" to :"owner";

-- What a migration makes can be read at once; more is granted by the next run of this script.
alter default privileges for role :"owner" in schema :"schema"
  grant select on tables to :"reader", :"writer", :"worker", :"operator";

select to_regclass(format('%I.dl_tables', :'schema')) is not null as has_tables
\gset
\if :has_tables

set local search_path to :"schema";
-- Rights that an older script gave and this one does not are taken back.
revoke all on all tables in schema :"schema"
  from :"reader", :"writer", :"worker", :"operator";
grant select on all tables in schema :"schema"
  to :"reader", :"writer", :"worker", :"operator";

-- Whoever mirrors: the state of each attempt, the records of checkpoints, the leases.
grant update (mirrored_through, state) on dl_tables to :"writer", :"worker";
grant insert, update on dl_mirror_status, dl_log_files, dl_leases to :"writer", :"worker";
-- Workers compare logs with SQL now and then, and write down when and what they found.
grant update (verify_started_at, verified_at, verified_version, findings, verify_runs) on dl_tables
  to :"worker";

-- Whoever commits. Versions are only ever added: a writer may neither change nor delete one.
grant update (
  current_version, last_ict, metadata_version, protocol_version, partitions_emptied
) on dl_tables to :"writer";
grant update (value) on dl_counters to :"writer";
grant insert on
  dl_table_versions, dl_payload_chunks, dl_metadata_updates, dl_protocol_updates,
  dl_domain_metadata, dl_txn_actions, dl_files, dl_removed_files, dl_partitions,
  dl_stats_columns, dl_stats_num, dl_stats_text
  to :"writer";
grant update (until_version) on dl_stats_columns to :"writer";
grant delete on dl_files to :"writer";
grant update (empty_since) on dl_partitions to :"writer";
-- A write in flight is a lease that ends with it.
grant delete on dl_leases to :"writer";

-- The operator creates, renames, drops, detaches, pauses, cleans up, repairs and recovers. Of what
-- the audit stands on it deletes nothing: tables stay as rows.
grant insert, update, delete on all tables in schema :"schema" to :"operator";
revoke insert, update, delete on dl_schema_version, dl_history, dl_file_changes, dl_mirror_lag
  from :"operator";
revoke insert, delete on dl_catalog, dl_counters from :"operator";
revoke delete on dl_tables from :"operator";

-- A commit writes the table's state, so writers have the right to that column; these policies keep
-- them from the two states that end a table. Rows are hidden from nobody.
alter table dl_tables enable row level security;
drop policy if exists everybody on dl_tables;
create policy everybody on dl_tables using (true) with check (true);
drop policy if exists only_operators_end_tables on dl_tables;
create policy only_operators_end_tables on dl_tables as restrictive for update
  to :"writer", :"worker" using (true) with check (state not in ('deleted', 'detached'));

\else
\echo No catalog there yet: run deltasql db init as a member of :owner, then this script again.
\endif
commit;
