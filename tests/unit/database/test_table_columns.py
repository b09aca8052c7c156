"""What a query returns of a table is read by position: SQL and TableRow name the same columns."""

import pytest

from deltasql.database.named_queries import load_queries
from deltasql.metastore.table_row import TABLE_FIELDS


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_the_columns_of_a_table_in_sql_are_the_fields_of_its_row_in_order(dialect):
    columns = load_queries(dialect)["table_columns"].replace("\n", " ")
    assert columns.split(", ") == [f"t.{name}" for name in TABLE_FIELDS]
