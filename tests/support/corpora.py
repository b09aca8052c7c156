"""Real tables, written by others: where they are and what a right replay of each gives."""

import json
import os
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
CORPORA = Path(os.environ.get("DELTASQL_CORPORA", _ROOT.parent / "shared" / "corpora"))
ARCHIVE = CORPORA / "tables.tar.gz"
MISSING = not ARCHIVE.exists()
needs_corpora = pytest.mark.skipif(
    MISSING, reason=f"no corpora: set DELTASQL_CORPORA (looked in {CORPORA})"
)
EXPECTED = {} if MISSING else json.loads((CORPORA / "expected.json").read_text())
