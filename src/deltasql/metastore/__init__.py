"""The `dl_` tables: what SQL knows of tables, and the SQL that reads and writes it.

It knows no driver; the runtime and all above may import it. Start with `registry`, then
`commit.committer` for writes and `snapshot.snapshot` for reads. The queries are in `sql`.
"""
