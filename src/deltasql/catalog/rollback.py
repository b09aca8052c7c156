"""Roll one table's book back to a version: as if the commits above it had never been made.

Only inside a transaction that keeps what it takes away, or puts it back under other numbers.
"""

from __future__ import annotations

from deltasql.catalog.database import Work
from deltasql.catalog.definitions import load_definition
from deltasql.catalog.rows import TableRow, table_row
from deltasql.catalog.settings_rows import keep_settings

# In this order: an index goes before its files, a file before the one whose place it took.
# Combinations of partition values stay: processes remember which of them are in the book.
_STEPS = (
    "roll_back_stats_num",
    "roll_back_stats_text",
    "roll_back_stats_columns",
    "reopen_stats_columns",
    "roll_back_files",
    "revive_files",
    "roll_back_removed_files",
    "roll_back_metadata",
    "roll_back_protocol",
    "roll_back_domains",
    "roll_back_txns",
    "roll_back_txn_actions",
    "roll_back_mirror_rows",
    "void_log_files",
    "roll_back_payload_chunks",
    "roll_back_versions",
    "roll_back_table",
)


def roll_back(work: Work, table_id: str, version: int) -> TableRow:
    """Under the table's row lock: make its book what it was at `version`, and return its row.

    The state stays as it is. Checkpoints above are voided: `mirror verify` finds them.
    """
    for name in _STEPS:
        work.run(name, table_id=table_id, version=version)
    work.run("rebuild_txns", table_id=table_id)
    row = table_row(work.rows("lock_table", table_id=table_id)[0])
    keep_settings(work, (load_definition(work, table_id, version).metadata,), row)
    return table_row(work.rows("lock_table", table_id=table_id)[0])
