"""Writers run through failovers of a real PostgreSQL pair: each commit is there once."""

import json
from pathlib import Path

import pytest

import deltasql
import pg_pair
import processes
from builders import NO_MIRROR, a_table
from deltasql.testing.invariants import check_invariants
from plugins.pg_fixtures import builds

pytestmark = [pytest.mark.req("R2"), pytest.mark.verify]
FAILOVERS = 5
WRITERS = 3


@pytest.fixture
def pair(postgres_server):
    """A pair of the preferred build; skips where there is no PostgreSQL."""
    with pg_pair.running_pair(builds()[0]) as running:
        yield running


def test_writers_survive_five_failovers_and_lose_nothing(pair, tmp_path):
    uri = pair.uri("postgres")
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        a_table(catalog, tmp_path)
    files = [tmp_path / f"writer{number}" for number in range(WRITERS)]
    outputs = [file.open("w") for file in files]
    writers = [
        processes.start_into(output, "append_through", uri, "orders", f"w{number}")
        for number, output in enumerate(outputs)
    ]

    def told() -> list[list]:
        lines = [line for file in files for line in _lines(file)]
        return [json.loads(line) for line in lines if line.startswith("[")]

    try:
        processes.until(lambda: all(_lines(file) for file in files))
        for _ in range(FAILOVERS):
            before = len(told())
            processes.until(lambda before=before: len(told()) > before + 30, 120)
            pair.fail_over()
        before = len(told())
        processes.until(lambda: len(told()) > before + 30, 120)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    errors = [writer.returncode for writer in writers if writer.returncode != -9]
    assert not errors, "\n".join(line for file in files for line in _lines(file)[-30:])
    acknowledged = dict(told())
    assert len(acknowledged) == len(told()) == len(set(acknowledged.values()))
    with deltasql.connect(uri) as catalog:
        catalog.mirror.run_once()
        check_invariants(catalog, "orders", acknowledged=acknowledged)
    for output in outputs:
        output.close()


def _lines(file: Path) -> list[str]:
    return [line for line in file.read_text().splitlines() if line]
