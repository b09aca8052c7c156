"""One bad table of a lake does not stop the others."""

from deltasql.errors import CatalogUnavailableError, LogGapError, TableExistsError
from deltasql.imports.lake import LakeTable, each_table


def tables(*names):
    return [
        LakeTable(f"f{number}", f"file:///f{number}", name) for number, name in enumerate(names)
    ]


def test_errors_are_told_table_by_table_and_the_others_go_on():
    def do(table):
        if table.name == "b":
            raise LogGapError("Version 3 is missing.")
        if table.name == "c":
            raise ZeroDivisionError("secret")
        return table.name.upper()

    a, b, c, d = each_table(tables("a", "b", "c", "d"), do)
    assert (a.result, d.result) == ("A", "D")
    assert (b.error.code, b.error.exit_code) == ("DS204", 5)
    assert "ZeroDivisionError" in c.error.message
    assert "secret" not in c.error.message


def test_a_catalog_that_is_gone_is_not_asked_again():
    tried = []

    def do(table):
        tried.append(table.name)
        raise CatalogUnavailableError

    found = list(each_table(tables("a", "b", "c"), do))
    assert tried == ["a"]
    assert [one.error.exit_code for one in found] == [6, 6, 6]


def test_two_folders_of_one_name_are_both_refused():
    found = list(each_table(tables("a", "b", "a"), lambda table: table.name))
    assert [type(one.error) for one in found] == [TableExistsError, type(None), TableExistsError]
    assert "'f0'" in found[2].error.message
    assert "`name=`" in found[0].error.advice
