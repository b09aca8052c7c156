"""The hint of an error fits the case: what was given is corrected, what is damaged is restored."""

import pytest

import deltasql
from builders import a_table, rows
from deltasql.errors import MalformedActionError, TableExistsError
from deltasql.protocol.log_names import commit_key
from foreign_tables import ForeignTable


@pytest.fixture
def catalog(tmp_path):
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/c.db") as found:
        found.create_if_missing()
        yield found


def hint_of(error: type[deltasql.DeltaSqlError], attempt) -> str:
    with pytest.raises(error) as refused:
        attempt()
    return refused.value.advice


@pytest.mark.parametrize("action", [{"add": {"path": 7}}, {"add": {}, "mine": 1}])
def test_an_action_that_was_given_is_to_be_corrected(catalog, tmp_path, action):
    table = a_table(catalog, tmp_path)
    assert "correct the action" in hint_of(MalformedActionError, lambda: table.commit([action]))


def imported(catalog, tmp_path, payload: bytes):
    root = ForeignTable().write(tmp_path / "source", [])
    (root / commit_key(0)).write_bytes(payload)
    return lambda: catalog.import_table(str(root), name="t", engine="local")


def test_a_damaged_line_is_to_be_looked_at(catalog, tmp_path):
    hint = hint_of(MalformedActionError, imported(catalog, tmp_path, b'{"add":{"path":7}}\n'))
    assert "look at that line" in hint


def test_a_log_without_rules_is_to_be_restored(catalog, tmp_path):
    hint = hint_of(MalformedActionError, imported(catalog, tmp_path, b'{"commitInfo":{}}\n'))
    assert "line" not in hint
    assert "backup" in hint


def test_a_protocol_against_the_letter_may_be_accepted(catalog, tmp_path):
    root = ForeignTable(versions=(1, 7)).write(tmp_path / "source", [])
    hint = hint_of(
        MalformedActionError, lambda: catalog.import_table(str(root), name="t", engine="local")
    )
    assert "`lenient=True`" in hint


def test_a_name_that_is_taken(catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    a_table(catalog, tmp_path, "other")
    assert "`exist_ok=True`" in hint_of(TableExistsError, lambda: a_table(catalog, tmp_path))
    assert hint_of(TableExistsError, lambda: catalog.rename("other", "orders")) == (
        "Choose another name."
    )
    inside = f"{table.location}/inner"
    hint = hint_of(
        TableExistsError,
        lambda: catalog.create_table("inner", location=inside, schema=rows(1).schema),
    )
    assert hint == "Choose a location outside of the other table."
