"""What the cases on Spark run in children: a fresh session, a selective read, appends, a merge."""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench import spark_session
from bench.child import CaseFailedError
from bench.spark_tables import ROWS, copy, selection

# How often the warm scans are timed: twenty million rows through Python take their time.
_WARM = {"delta": 3, "deltasql": 3, "source": 1}
_TWO = ("count(s)", "sum(k)")
_ALL = ("sum(id)", "sum(k)", "sum(v)", "max(s)", "max(ts)", "sum(d)")
_BIG_APPENDS, _SMALL_APPENDS, _MERGES = 4, 20, 3


def scan(contender: str, place: dict[str, Any], rows: int) -> Iterator[dict[str, Any]]:
    """In a child: from nothing to the first result, then the same table again and again."""
    import deltasql.spark  # noqa: F401 (imports are not timed)

    yield {}
    started = time.perf_counter()
    spark = spark_session.start(contender)
    begun = time.perf_counter()
    _require(_table(contender, spark, place).selectExpr(*_TWO).first()[0], rows)
    first = time.perf_counter()

    def frame() -> Any:
        return _table(contender, spark, place)

    works = {
        "two columns": lambda: frame().selectExpr(*_TWO).first(),
        "all columns": lambda: frame().selectExpr(*_ALL).first(),
        "all rows": lambda: frame().write.format("noop").mode("overwrite").save(),
    }
    times = _WARM[contender]
    warm = {name: _times(work, times) for name, work in works.items()}
    yield {
        "seconds": first - started,
        "session": begun - started,
        "jvm_mb": spark_session.memory_mb(spark),
        "warm": warm,
    }


def _times(work: Callable[[], Any], times: int) -> float:
    """Return the median; where there are several, after a first one that compiles what is new."""
    if times > 1:
        work()
    found = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return statistics.median(found)


def selective(
    contender: str, place: dict[str, Any], tiny: dict[str, Any], files: int, few: int
) -> Iterator[dict[str, Any]]:
    """In a child: the first read of a table, in a session that has read another like it."""
    spark = spark_session.start(contender)
    for _ in range(3):
        _select(contender, spark, tiny, few)
    before = spark_session.memory_mb(spark)
    yield {}
    started = time.perf_counter()
    _select(contender, spark, place, files)
    seconds = time.perf_counter() - started
    again = time.perf_counter()
    _select(contender, spark, place, files)
    yield {
        "seconds": seconds,
        "again": time.perf_counter() - again,
        "before_mb": before,
        "jvm_mb": spark_session.memory_mb(spark),
    }


def _select(contender: str, spark: Any, place: dict[str, Any], files: int) -> None:
    day, low, high = selection(files)
    where = f"date = '{day}' and id between {low} and {high}"
    found = _table(contender, spark, place, where).selectExpr("count(user_id)", "min(id)").first()
    _require(tuple(found), (high - low + 1, low))


def _table(contender: str, spark: Any, place: dict[str, Any], where: str | None = None) -> Any:
    import deltasql.spark

    if contender == "deltasql":
        return deltasql.spark.read(spark, place["sqlite_uri"], "t", where=where)
    if contender == "delta":
        frame = spark.read.format("delta").load(f"{place['dir']}/table")
    else:
        frame = spark.read.format("deltasql").load(f"{place['sqlite_uri']}?table=t")
    return frame if where is None else frame.where(where)


def appends(contender: str, place: dict[str, Any], rows: int) -> Iterator[dict[str, Any]]:
    """In a child: appends of many rows, then of few, to a table that the first one makes."""
    spark = spark_session.start(contender)
    append = _appender(contender, spark, place)
    append(100)
    append(rows)
    yield {}
    big = [append(rows) for _ in range(_BIG_APPENDS)]
    small = [append(100) for _ in range(_SMALL_APPENDS)]
    found = _table(contender, spark, place).selectExpr("count(s)").first()[0]
    _require(found, rows * (1 + _BIG_APPENDS) + 100 * (1 + _SMALL_APPENDS))
    yield {
        "seconds": statistics.median(big),
        "small": statistics.median(small),
        "jvm_mb": spark_session.memory_mb(spark),
    }


def _appender(contender: str, spark: Any, place: dict[str, Any]) -> Callable[[int], float]:
    import deltasql.spark

    root, uri = f"{place['dir']}/table", place["sqlite_uri"]

    def append(rows: int) -> float:
        frame = spark.range(0, rows, 1, 2 if rows > 100 else 1).selectExpr(*ROWS)
        started = time.perf_counter()
        if contender == "delta":
            frame.write.format("delta").mode("append").save(root)
        elif contender == "deltasql":
            deltasql.spark.write(frame, uri, "t", location=root)
        else:
            frame.write.format("deltasql").mode("append").save(f"{uri}?table=t")
        return time.perf_counter() - started

    if contender == "source":
        deltasql.spark.write(spark.range(0).selectExpr(*ROWS), uri, "t", location=root)
    return append


def merge(
    contender: str, source: dict[str, Any], place: dict[str, Any], rows: int
) -> Iterator[dict[str, Any]]:
    """In a child: 1,000 rows merged into the table, nine of ten of them known, three times."""
    import deltasql.spark

    copy(source, place)
    spark = spark_session.start(contender, with_delta=True)
    target = f"delta.`{place['dir']}/table`" if contender == "delta" else "t"
    if contender == "delta":
        _unfence(place)
    yield {}
    found = []
    for number in range(_MERGES):
        first, known = rows // 4 + number * 1000, rows // 4 + number * 1000 + 900
        news = (
            f"select case when id < {known} then id else {rows} + {number} * 1000 + id end id, "
            f"k, -1.0 v, s, ts, d "
            f"from (select {', '.join(ROWS)} from range({first}, {first} + 1000))"
        )
        statement = (
            f"MERGE INTO {target} t USING ({news}) n ON t.id = n.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        started = time.perf_counter()
        if contender == "delta":
            spark.sql(statement)
            staged = started
        else:
            with deltasql.spark.transaction(spark, place["sqlite_uri"]) as tx:
                tx.path("t")
                staged = time.perf_counter()
                tx.sql(statement)
        found.append((time.perf_counter() - started, staged - started))
    changed = _table(contender, spark, place).where("v = -1.0").count()
    _require(changed, 1000 * _MERGES)
    yield {
        "seconds": found[-1][0],
        "staging": found[-1][1],
        "first": found[0][0],
        "jvm_mb": spark_session.memory_mb(spark),
    }


def _unfence(place: dict[str, Any]) -> None:
    """Give the copied table to Delta Spark, which must not write to one of ours."""
    from bench import ours

    with ours.connect(place, "sqlite", "inline") as catalog:
        catalog.table("t").detach()


def _require(found: Any, wanted: Any) -> None:
    if found != wanted:
        raise CaseFailedError(f"wrong answer: {found}, not {wanted}")
