"""Names in the statements of a transaction mean the tables of its catalog, or are refused."""

import pytest
from pyspark.sql import SparkSession

import deltasql
import deltasql.spark
from builders import a_table, rows
from deltasql.errors import BadArgumentError, CommitConflictError

pytestmark = [pytest.mark.req("R26"), pytest.mark.usefixtures("needs_delta")]


@pytest.fixture
def session(spark):
    """A session of its own, whose views end with the test."""
    return spark.spark.newSession()


@pytest.fixture
def catalog(uri):
    with deltasql.connect(uri) as opened:
        opened.create_if_missing()
        yield opened


@pytest.fixture
def orders(catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    table.append(rows(1, 2))
    return table


@pytest.fixture
def spaced(catalog, tmp_path):
    table = a_table(catalog, tmp_path, "ns.t1")
    table.append(rows(1, 2))
    return table


def ids(frame):
    return sorted(row.id for row in frame.select("id").collect())


# views


def test_a_view_that_replaced_an_attached_one_is_not_passed_over(session, uri, orders):
    """Spark's SQL would read the view: the transaction does not read the table instead."""
    deltasql.spark.attach(session, uri)
    session.table("orders").where("id = 1").createOrReplaceTempView("orders")
    with deltasql.spark.transaction(session, uri) as tx:
        with pytest.raises(BadArgumentError, match="both a temporary view and a table"):
            tx.sql("select * from orders")
        with pytest.raises(BadArgumentError, match="both a temporary view and a table"):
            tx.sql("delete from ORDERS where id = 1")
    deltasql.spark.attach(session, uri)
    with deltasql.spark.transaction(session, uri) as tx:
        assert ids(tx.sql("select * from Orders")) == [1, 2]


def test_a_view_of_another_catalogs_table_is_not_this_catalogs(session, uri, orders, tmp_path):
    other_uri = f"deltasql://sqlite/{tmp_path}/other.db"
    with deltasql.connect(other_uri) as other:
        a_table(other, tmp_path, "orders").append(rows(9))
        a_table(other, tmp_path, "only_there").append(rows(8))
    deltasql.spark.attach(session, uri)
    deltasql.spark.attach(session, other_uri)
    assert ids(session.table("orders")) == [9]
    with deltasql.spark.transaction(session, uri) as tx:
        with pytest.raises(BadArgumentError, match="both a temporary view and a table"):
            tx.sql("select * from orders")
        assert ids(tx.sql("select * from only_there")) == [8]
    with deltasql.spark.transaction(session, other_uri) as tx:
        assert ids(tx.sql("select * from orders")) == [9]


def test_the_view_of_a_dropped_table_ends_with_the_next_attach(session, uri, catalog, orders):
    assert deltasql.spark.attach(session, uri) == ("orders",)
    assert session.catalog.tableExists("orders")
    catalog.drop("orders")
    assert deltasql.spark.attach(session, uri) == ()
    assert not session.catalog.tableExists("orders")


def test_what_a_user_put_in_a_views_place_stays(session, uri, catalog, orders, tmp_path):
    deltasql.spark.attach(session, uri)
    session.range(5).createOrReplaceTempView("orders")
    catalog.drop("orders")
    deltasql.spark.attach(session, uri)
    assert session.table("orders").count() == 5


def test_views_of_other_catalogs_stay(session, uri, catalog, orders, tmp_path):
    other_uri = f"deltasql://sqlite/{tmp_path}/other.db"
    with deltasql.connect(other_uri) as other:
        a_table(other, tmp_path, "totals").append(rows(9))
    deltasql.spark.attach(session, other_uri)
    deltasql.spark.attach(session, uri)
    deltasql.spark.attach(session, uri)
    assert ids(session.table("totals")) == [9]


def test_a_renamed_view_of_a_namespace_is_refused_by_any_spelling(session, uri, spaced):
    deltasql.spark.attach(session, uri)
    with deltasql.spark.transaction(session, uri) as tx:
        for name in ("ns_t1", "NS_T1", "`ns_t1`"):
            with pytest.raises(BadArgumentError, match=r"is a view of the table ns\.t1"):
                tx.sql(f"select * from {name}")


# computed names


def test_a_name_that_is_a_literal_is_found(session, uri, orders, spaced):
    with deltasql.spark.transaction(session, uri) as tx:
        tx.sql("insert into identifier('orders') values (3, 'n3', 'a')")
        tx.sql("delete from identifier('ns.t1') where id = 1")
        assert ids(tx.sql("select * from identifier('orders')")) == [1, 2, 3]
        assert ids(tx.sql("select t1.id from identifier('ns.t1')")) == [2]
        both = "select x.id from ns.t1 x join identifier('ns.t1') y on x.id = y.id"
        assert ids(tx.sql(both)) == [2]
        tx.sql("insert into identifier('ns.t1') select * from identifier('orders') where id = 3")
        assert ids(tx.sql("table identifier('ns.t1')")) == [2, 3]
    assert dict(tx.versions) == {"orders": 2, "ns.t1": 2}


@pytest.mark.parametrize(
    "statement",
    [
        "select * from identifier('or' || 'ders')",
        "table identifier('or' || 'ders')",
        "insert into identifier('sp' || 'arks') values (1, 'x', 'a')",
        "insert into orders select * from identifier(concat('sp', 'arks'))",
        "delete from identifier('sp' || 'arks')",
        "update identifier('sp' || 'arks') set id = 1",
        "merge into identifier('sp' || 'arks') t using orders on 1 = 2 when matched then delete",
        "merge into orders using identifier('sp' || 'arks') on 1 = 2 when matched then delete",
        "select (select max(id) from identifier('sp' || 'arks')) from orders",
        "select * from orders where id in (select id from identifier('sp' || 'arks'))",
        "with c as (select * from identifier('sp' || 'arks')) select * from c",
        "from orders insert into identifier('sp' || 'arks') select *",
    ],
)
def test_a_name_that_is_computed_is_refused(session, uri, orders, statement):
    """It might be any table, also one of Spark's own, which no rollback brings back."""
    before = orders.version
    with (
        pytest.raises(BadArgumentError, match=r"identifier\(\.\.\.\) names"),
        deltasql.spark.transaction(session, uri) as tx,
    ):
        tx.sql(statement)
    assert orders.version == before


def test_a_column_may_be_computed(session, uri, orders):
    with deltasql.spark.transaction(session, uri) as tx:
        assert ids(tx.sql("select identifier('i' || 'd') from orders")) == [1, 2]


# namespaces


@pytest.mark.parametrize(
    "statement",
    [
        "select ns.t1.id from ns.t1",
        "select NS.T1.id, ns.t1.`name` from ns.t1 where `ns`.`t1`.day = 'a' order by ns.t1.id",
        "select ns.t1.* from ns.t1",
        "select ns . t1 . id /* ns.t1.x */ from ns.t1 where ns.t1.name <> 'ns.t1.id' -- ns.t1.y",
        "select ns.t1.id from ns.t1 join orders on ns.t1.id = orders.id",
        "select id from orders where exists (select 1 from ns.t1 where ns.t1.id = orders.id)",
        "select 'é', ns.t1.id from ns.t1 group by ns.t1.id",
        "with c as (select ns.t1.id from ns.t1) select c.id from c",
    ],
)
def test_a_column_may_be_qualified_by_a_table_with_its_namespace(
    session, uri, orders, spaced, statement
):
    with deltasql.spark.transaction(session, uri) as tx:
        assert ids(tx.sql(statement)) == [1, 2]


def test_writes_with_qualified_columns(session, uri, orders, spaced):
    with deltasql.spark.transaction(session, uri) as tx:
        tx.sql("update ns.t1 set name = 'x' where ns.t1.id = 1")
        tx.sql(
            "merge into ns.t1 using orders on ns.t1.id = orders.id "
            "when matched and ns.t1.id = 2 then update set ns.t1.name = 'y'"
        )
        found = tx.sql("select name from ns.t1 order by ns.t1.id").collect()
    assert [row.name for row in found] == ["x", "y"]


# variables


def test_variables_in_braces_may_hold_names(session, uri, orders, spaced):
    session.conf.set("my.table", "ns.t1")
    session.conf.set("my.longer.text", "id = 1 or id = 1")
    with deltasql.spark.transaction(session, uri) as tx:
        assert ids(tx.sql("select * from ${my.table} where ${my.longer.text}")) == [1]
        tx.sql("delete from ns.t1 where ${my.longer.text}")
        assert ids(tx.sql("select ${my.table}.id from ${my.table} join orders using (id)")) == [2]
    assert tx.versions["ns.t1"] == 2


def test_variables_of_the_session_count(session, uri, orders):
    session.sql("declare variable chosen bigint = 1")
    session.sql("set var chosen = 2")
    with deltasql.spark.transaction(session, uri) as tx:
        assert ids(tx.sql("select * from orders where id = chosen")) == [2]
        tx.sql("delete from orders where id = session.chosen")
        session.sql("set var chosen = 1")
        assert ids(tx.sql("select * from orders where id = chosen")) == [1]
    assert tx.versions == {"orders": 2}


def test_a_transaction_leaves_the_active_session_alone(session, uri, orders):
    before = SparkSession.getActiveSession()._jsparkSession
    with deltasql.spark.transaction(session, uri) as tx:
        tx.sql("delete from orders where id = 1")
    assert SparkSession.getActiveSession()._jsparkSession.equals(before)


def test_reads_by_any_name_are_checked(session, uri, orders, spaced):
    session.conf.set("my.table", "ns.t1")
    with (
        pytest.raises(CommitConflictError),
        deltasql.spark.transaction(session, uri) as tx,
    ):
        tx.sql("insert into orders select ${my.table}.* from identifier('ns.t1')")
        spaced.append(rows(7))
