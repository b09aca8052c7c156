"""spark.write on every kind of database: the commits are the catalog's own."""

import pytest

import delta_spark
import deltasql
from builders import a_table, ids
from deltasql.errors import CommitConflictError
from deltasql.spark import write
from deltasql.testing import check_invariants
from deltasql.testing.crash_points import hooked
from readers import read_deltasql


def a_frame(spark, first, day, count=10):
    return spark.spark.range(first, first + count).selectExpr(
        "id", "concat('n', id) as name", f"'{day}' as day"
    )


@pytest.mark.parametrize("limit", [None, 1000], ids=["driver", "spark"])
def test_versions_come_one_after_the_other(spark, catalog_uri, tmp_path, limit):
    def save(first, day, **options):
        frame = a_frame(spark, first, day)
        return write(frame, catalog_uri, "orders", max_records_per_file=limit, **options)

    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        assert save(0, "a") == 1
        assert save(10, "b", txn_app_id="job", txn_version=1) == 2
        assert save(10, "b", txn_app_id="job", txn_version=1) == 2
        assert save(20, "b", mode="overwrite", partition_overwrite_mode="dynamic") == 3
        assert save(30, "a", mode="overwrite", replace_where="day = 'a'") == 4
        assert ids(table) == list(range(20, 40))
        assert save(50, "c", mode="overwrite") == 5
        assert ids(table) == list(range(50, 60))
        check_invariants(catalog, "orders")
        delta_spark.forget()
        place = table.location.removeprefix("file://")
        assert delta_spark.read_delta_spark(place) == read_deltasql(table)


def test_the_second_overwrite_of_two_is_refused(spark, catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        first, second = a_frame(spark, 0, "a"), a_frame(spark, 10, "b")
        is_first = True

        def hook(point):
            nonlocal is_first
            if point == "after-spark-files" and is_first:
                is_first = False
                write(second, catalog_uri, "orders", mode="overwrite", max_records_per_file=1000)

        table.append(first.toArrow())
        with hooked(hook), pytest.raises(CommitConflictError):
            write(first, catalog_uri, "orders", mode="overwrite", max_records_per_file=1000)
        assert ids(table) == list(range(10, 20))
        check_invariants(catalog, "orders")
