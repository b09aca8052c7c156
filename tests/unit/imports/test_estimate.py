"""Estimates against databases that were really filled."""

import pytest

from deltasql.imports.preview import POSTGRES, SQLITE, Counts, Sizes, estimate

# Measured: commits, bytes of JSON, counts, bytes of the database. Statistics are those of the
# benchmarks' files (five indexed columns), of thirty columns, or none.
SHAPES = {
    "adds-and-removes-sqlite": (
        SQLITE,
        Sizes(50, 22_600_358, 0),
        Counts(30_000, 19_600, 10_400),
        29_011_000,
    ),
    "removes-with-statistics-sqlite": (
        SQLITE,
        Sizes(50, 30_124_400, 0),
        Counts(30_000, 19_600, 10_400),
        30_174_000,
    ),
    "merges-sqlite": (
        SQLITE,
        Sizes(100, 48_558_077, 0),
        Counts(69_600, 29_400, 40_200),
        69_100_000,
    ),
    "merges-postgres": (
        POSTGRES,
        Sizes(100, 48_558_077, 0),
        Counts(69_600, 29_400, 40_200),
        87_200_000,
    ),
    "commits-sqlite": (
        SQLITE,
        Sizes(5_000, 6_504_579, 0),
        Counts(7_000, 2_998, 4_002),
        13_400_000,
    ),
    "commits-postgres": (
        POSTGRES,
        Sizes(5_000, 6_504_579, 0),
        Counts(7_000, 2_998, 4_002),
        15_700_000,
    ),
    "adds-sqlite": (SQLITE, Sizes(50, 29_758_028, 0), Counts(50_000, 0, 50_000), 52_252_672),
    "adds-postgres": (POSTGRES, Sizes(50, 29_758_028, 0), Counts(50_000, 0, 50_000), 77_545_472),
    "small-sqlite": (SQLITE, Sizes(3_000, 2_910_171, 0), Counts(3_000, 0, 3_000), 7_323_648),
    "small-postgres": (POSTGRES, Sizes(3_000, 2_910_171, 0), Counts(3_000, 0, 3_000), 10_321_920),
    "wide-sqlite": (SQLITE, Sizes(20, 14_602_611, 0), Counts(10_000, 0, 10_000), 20_422_656),
    "wide-postgres": (POSTGRES, Sizes(20, 14_602_611, 0), Counts(10_000, 0, 10_000), 30_515_200),
    "bare-sqlite": (SQLITE, Sizes(50, 9_335_630, 0), Counts(30_000, 19_600, 10_400), 13_095_000),
}


@pytest.mark.req("R66")
@pytest.mark.parametrize("shape", SHAPES)
def test_the_database_becomes_about_as_big_as_told(shape):
    rates, sizes, counts, measured = SHAPES[shape]
    counted = estimate(sizes, counts, rates).database_bytes
    assert measured / 1.5 < counted < measured * 1.5
    guessed = estimate(sizes, None, rates).database_bytes
    assert measured / 2 < guessed < measured * 2


# Measured by the benchmarks: the whole import, and of it what only reading the log takes.
TIMES = {
    "actions-sqlite": (
        SQLITE,
        Sizes(1_000, 491_000_000, 0),
        (699_600, 299_400, 400_200),
        16.1,
        9.6,
    ),
    "actions-postgres": (
        POSTGRES,
        Sizes(1_000, 491_000_000, 0),
        (699_600, 299_400, 400_200),
        24.9,
        9.6,
    ),
    "commits-sqlite": (SQLITE, Sizes(50_000, 65_000_000, 0), (70_000, 29_998, 40_002), 5.78, 4.5),
    "commits-postgres": (
        POSTGRES,
        Sizes(50_000, 65_000_000, 0),
        (70_000, 29_998, 40_002),
        7.06,
        4.5,
    ),
}


@pytest.mark.req("R66")
@pytest.mark.parametrize("shape", TIMES)
def test_the_import_takes_about_as_long_as_told(shape):
    rates, sizes, counts, measured, read_seconds = TIMES[shape]
    counted = estimate(sizes, Counts(*counts), rates).seconds
    after_reading = estimate(sizes, Counts(*counts), rates, read_seconds=read_seconds).seconds
    assert measured / 1.5 < counted < measured * 1.5
    assert measured / 1.5 < after_reading < measured * 1.5
    assert measured / 2 < estimate(sizes, None, rates).seconds < measured * 2


@pytest.mark.req("R66")
def test_a_log_that_was_read_slowly_is_imported_slowly():
    sizes, counts = Sizes(100, 1_000_000, 0), Counts(1_000, 0, 1_000)
    quick, slow = (estimate(sizes, counts, read_seconds=seconds).seconds for seconds in (1, 61))
    assert slow - quick == pytest.approx(60)
    assert estimate(sizes, counts, read_seconds=0).seconds < estimate(sizes, counts).seconds
    assert estimate(sizes, counts, SQLITE.on_spark()).seconds > estimate(sizes, counts).seconds


def test_more_to_read_takes_longer_and_more_room():
    small, large = estimate(Sizes(10, 10_000, 0)), estimate(Sizes(1_000, 1_000_000, 0))
    assert small.seconds < large.seconds
    assert small.database_bytes < large.database_bytes
    based = estimate(Sizes(10, 10_000, 1_000_000))
    assert small.seconds < based.seconds
    assert small.database_bytes < based.database_bytes


def test_nothing_is_estimated_below_nothing():
    empty = estimate(Sizes(5, 10, 0), Counts(0, 0, 0))
    assert empty.seconds > 0
    assert empty.database_bytes > 0
