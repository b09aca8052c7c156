-- A version keeps its number for good, so no record of older numbers is needed.
drop table dl_rebased_chunks;
drop table dl_rebased_commits;
update dl_tables set properties = (properties::jsonb - 'deltasql.renumbered')::text
where properties like '%deltasql.renumbered%';
