"""The tables of the corpora, unpacked once per test process."""

import tarfile
from pathlib import Path

import pytest

from corpora import ARCHIVE

# Delta's own tests put this before the names of vectors; the protocol knows nothing of it.
TEST_PREFIX = "test%dv%prefix-"


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds `<name>/delta` for every table."""
    folder = tmp_path_factory.mktemp("corpora")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    for path in folder.rglob(f"{TEST_PREFIX}*.bin"):
        path.rename(path.with_name(path.name.removeprefix(TEST_PREFIX)))
    return folder
