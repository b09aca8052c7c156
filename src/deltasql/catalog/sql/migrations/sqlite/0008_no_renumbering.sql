-- A version keeps its number for good, so no record of older numbers is needed.
drop table dl_rebased_chunks;
drop table dl_rebased_commits;
update dl_tables set properties = json_remove(properties, '$."deltasql.renumbered"')
where properties like '%deltasql.renumbered%';
