"""A legacy writer that goes on while its table is imported and cut over."""

import os
import subprocess
import sys
import threading

import deltalake
import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import CutoverError
from deltasql.imports.cutover import cut_over
from deltasql.imports.job import ImportOptions, TableImport
from deltasql.testing import inspect
from deltasql.testing.invariants import check_invariants

pytestmark = pytest.mark.req("R81", "R82", "R102")

# Appends one number after the other until it is refused; tells every one that was acknowledged.
# It is refused twice: a commit that was on its way hears of a changed protocol, the next one of
# the fence.
_WRITER = """
import sys
import deltalake
import pyarrow as pa
place, number, refusals = sys.argv[1], 1000, 0
while refusals < 2:
    try:
        deltalake.write_deltalake(place, pa.table({"a": [number]}), mode="append")
    except Exception as error:
        print("refused", type(error).__name__, str(error).splitlines()[0], flush=True)
        refusals += 1
    else:
        print(number, flush=True)
        number += 1
"""


def race(catalog_uri, place, catch_up):
    """One race; `catch_up` is how the operator brings the import to the head."""
    deltalake.write_deltalake(place, pa.table({"a": [0]}))
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, place], stdout=subprocess.PIPE, text=True
    )
    try:
        with deltasql.connect(catalog_uri) as catalog:
            catalog.create_if_missing()
            connection = inspect(catalog).connection
            TableImport(connection, place, "t").run()
            lost = catch_up(connection, place)
            (version, *_), told = lost, writer.communicate(timeout=60)[0].splitlines()
            table = catalog.table("t")
            assert table.append(pa.table({"a": [-1]})) == version + 1
            expected = sorted([0, -1, *(int(line) for line in told if line.isdecimal())])
            assert sorted(table.scan().to_arrow()["a"].to_pylist()) == expected
            read = deltalake.DeltaTable(place).to_pyarrow_table()["a"].to_pylist()
            assert sorted(read) == expected
            assert told[-1].startswith("refused")
            assert "deltasqlManaged" in told[-1]
            assert catalog.mirror.verify("t") == []
            check_invariants(catalog, "t")
            return lost
    finally:
        writer.kill()
        writer.communicate()


def at_once(connection, place):
    """Take along what the writer commits meanwhile, as an operator does who cannot pause it."""
    done = cut_over(connection, "t", follow=True)
    return done.version, done.lost


def after_resuming(connection, place):
    """Resume once more before, as the guide says; the writer may be faster than the look at it."""
    TableImport(connection, place, "t", ImportOptions(resume=True)).run()
    try:
        done = cut_over(connection, "t")
    except CutoverError:
        return at_once(connection, place)
    return done.version, done.lost


@pytest.mark.parametrize("number", range(2))
def test_nothing_is_missed_and_nothing_doubled(catalog_uri, tmp_path, number):
    race(catalog_uri, str(tmp_path / f"t{number}"), (at_once, after_resuming)[number])


@pytest.mark.verify
@pytest.mark.parametrize("number", range(int(os.environ.get("DELTASQL_RACES", "25"))))
def test_fifty_races(catalog_uri, tmp_path, number):
    """Twenty-five in each database."""
    race(catalog_uri, str(tmp_path / f"t{number}"), (at_once, after_resuming)[number % 2])


def test_of_two_catalogs_one_takes_the_log_over(catalog_uri, second_uri, tmp_path):
    place = str(tmp_path / "t")
    deltalake.write_deltalake(place, pa.table({"a": [0]}))
    with deltasql.connect(catalog_uri) as one, deltasql.connect(second_uri) as two:
        for catalog in (one, two):
            TableImport(catalog._lazy.create().connection, place, "t").run()
        outcomes: dict[int, object] = {}

        def attempt(number, catalog):
            try:
                outcomes[number] = cut_over(inspect(catalog).connection, "t").version
            except Exception as error:  # noqa: BLE001 (it is looked at below)
                outcomes[number] = error

        threads = [
            threading.Thread(target=attempt, args=(number, catalog))
            for number, catalog in enumerate((one, two))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        won = [number for number, outcome in outcomes.items() if isinstance(outcome, int)]
        assert len(won) == 1, outcomes
        winner = (one, two)[won[0]]
        assert winner.table("t").append(pa.table({"a": [1]})) == 2
        check_invariants(winner, "t")
        loser = (one, two)[1 - won[0]]
        assert inspect(loser).metastore.table("t").state == "read_only"
