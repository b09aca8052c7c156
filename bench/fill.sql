-- The rows of one table of :ever files, numbered i from 0. File i comes with version 1 + i / :adds;
-- every sixth goes again 1 to 50 versions later. What stands in braces is a word of fill.py: the
-- two databases spell it differently.

-- name: rows
(
    select
        i, day, a, b, c, 8000000 + i * 7919 % 120000000 as size,
        1700000000000 + i * 250 as modified, 1 + i / :adds as added,
        'date=' || day || '/part-' || {five:i % 200} || '-' || {hex8:a} || '-' || {hex4:b % 65536}
            || '-4000-a000-' || {hex8:b} || {hex4:c / 65536} || '-c000.snappy.parquet' as path,
        '{"numRecords":1000,"minValues":{"id":' || (i * 1000) || ',"ts":"' || day
            || 'T00:00:00.000Z","user_id":"user-0000' || {hex4:c / 65536} || '","amount":'
            || (a % 100) || '.25,"note":"a' || {hex8:b} || '"},"maxValues":{"id":'
            || (i * 1000 + 999) || ',"ts":"' || day || 'T23:59:59.000Z","user_id":"user-ffff'
            || {hex4:a / 65536} || '","amount":' || (900 + a % 100) || '.25,"note":"z' || {hex8:c}
            || '"},"nullCount":{"id":0,"ts":0,"user_id":3,"amount":0,"note":4}}' as stats
    from (
        select
            i, {day} as day, (:first + i) * 2654435761 % 4294967296 as a,
            (:first + i) * 2246822519 % 4294967296 as b,
            (:first + i) * 3266489917 % 4294967296 as c
        from {numbers} n
        where {}
    ) x
)

-- name: files
insert into dl_files (
    file_id, table_key, file_key, path, size, modification_time, partition_values, stats,
    num_records, data_change, added_version
)
select
    :first + i, :table_key, {key:path}, path, size, modified, '{"date":"' || day || '"}', stats,
    1000, {true}, added
from {rows:i % 6 <> 5} f

-- name: removed
insert into dl_removed_files (
    file_id, table_key, file_key, path, size, modification_time, partition_values, stats,
    num_records, data_change, added_version, removed_version, removal, deletion_timestamp,
    remove_data_change, extended_file_metadata
)
select
    :first + i, :table_key, {key:path}, path, size, modified, '{"date":"' || day || '"}', stats,
    1000, {true}, added, added + 1 + i % 50, 'remove', :start + added + 1 + i % 50, {true}, {true}
from {rows:i % 6 = 5} f

-- name: partitions
insert into dl_partitions (table_key, partition_values)
select distinct :table_key, '{"date":"' || {day} || '"}' from {numbers} n

-- name: number
insert into dl_stats_num (stats_key, reach, low, high, file_id)
select :key_id, 10, i * 1000.0, i * 1000.0 + 999.0, :first + i from {numbers} n

-- name: day
insert into dl_stats_num (stats_key, reach, low, high, file_id)
select :key_ts, 37, d * 86400000000.0, d * 86400000000.0 + 86399001000.0, :first + i
from (select i, 18993 + i / :per_partition % 1000 as d from {numbers} n) x
order by d, i

-- name: user
insert into dl_stats_text (stats_key, low, high, file_id)
select :key_user_id, 'user-0000' || {hex4:c / 65536}, 'user-ffff' || {hex4:a / 65536}, :first + i
from (
    select
        i, (:first + i) * 2654435761 % 4294967296 as a,
        (:first + i) * 3266489917 % 4294967296 as c
    from {numbers} n
) x
order by c / 65536, i

-- name: amount
insert into dl_stats_num (stats_key, reach, low, high, file_id)
select :key_amount, 10, a + 0.25, a + 900.25, :first + i
from (select i, (:first + i) * 2654435761 % 4294967296 % 100 as a from {numbers} n) x
order by a, i

-- name: versions
insert into dl_table_versions (
    table_id, version, committed_at, committer, operation, operation_params, operation_metrics,
    in_commit_timestamp, read_version, is_blind_append, commit_id, adds, removes, actions,
    bytes_added, bytes_removed, payload_bytes, digest, origin
)
select
    {table_id}, n.v, :start + n.v, 'bench', 'WRITE', '{}', '{}', :start + n.v, n.v - 1,
    coalesce(r.files, 0) = 0, {id}, coalesce(a.files, 0), coalesce(r.files, 0),
    1 + coalesce(a.files, 0) + coalesce(r.files, 0), coalesce(a.bytes, 0), coalesce(r.bytes, 0), 0,
    {digest}, 'commit'
from {versions} n
left join (
    select 1 + i / :adds as v, count(*) as files, sum(8000000 + i * 7919 % 120000000) as bytes
    from {numbers} n
    group by 1
) a on a.v = n.v
left join (
    select
        2 + i / :adds + i % 50 as v, count(*) as files,
        sum(8000000 + i * 7919 % 120000000) as bytes
    from {numbers} n
    where i % 6 = 5
    group by 1
) r on r.v = n.v

-- name: queue
insert into dl_mirror_status (
    table_id, version, status, json_written, checkpoint_written, digest, updated_at
)
select
    table_id, version, case when version <= :mirrored then 'SUCCESS' else 'PENDING' end,
    version <= :mirrored, {false}, digest, {time:committed_at}
from dl_table_versions
where table_id = {table_id} and version > 0

-- name: table
update dl_tables set
    current_version = :last, last_ict = :start + :last, mirrored_through = :mirrored
where table_key = :table_key
