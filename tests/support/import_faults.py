"""Where an import is stopped in tests, and a source whose beginning is gone."""

from pathlib import Path

from deltasql.protocol.log_names import commit_key

# where, and at the how-manieth passing
IMPORT_POINTS = [
    ("before-import-begins", 1),
    ("before-import-part", 1),
    ("after-import-part", 1),
    ("before-import-marked", 1),
    ("before-import-window", 1),
    ("before-import-window", 3),
    ("after-import-window", 1),
    ("after-import-window", 3),
    ("before-import-segment", 1),
    ("before-import-segment", 3),
    ("after-import-segment", 1),
    ("after-import-segment", 3),
    ("before-import-noted", 1),
    ("before-stats-begun", 1),
    ("before-stats-part", 1),
    ("after-stats-filled", 1),
    ("before-stats-ended", 1),
    ("before-import-ends", 1),
    ("after-import-ends", 1),
]


def truncated(root: Path, versions: int) -> Path:
    """A log whose beginning only a checkpoint tells."""
    import deltalake

    deltalake.DeltaTable(str(root), version=versions).create_checkpoint()
    for version in range(versions):
        (root / commit_key(version)).unlink()
    return root
