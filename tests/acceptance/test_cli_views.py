"""What people see of a table: nothing is hidden in one long line, nothing is cut off."""

import pyarrow as pa
import pytest

import deltasql
from builders import a_table, rows


@pytest.fixture
def uri(tmp_path):
    return f"deltasql://sqlite/{tmp_path}/c.db"


def test_show_prints_schema_properties_and_mirror_as_tables(call, uri, tmp_path):
    with deltasql.connect(uri) as catalog:
        a_table(catalog, tmp_path, properties={"delta.appendOnly": "true"}).append(rows(1))
    text = call("-u", uri, "show", "orders").stdout
    assert "{" not in text
    lines = text.splitlines()
    for part, first in (
        ("columns", ["name", "type", "nullable"]),
        ("properties", ["delta.appendOnly", "true"]),
        ("mirror", ["mode", "inline"]),
    ):
        assert lines[lines.index(part) + 1].split() == first
    assert "  id    long    yes" in lines
    assert "partition_columns   day" in lines


def test_show_of_an_imported_table_names_its_source_on_a_line(call, uri, tmp_path):
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/source.db") as catalog:
        source = a_table(catalog, tmp_path)
        source.append(rows(1))
        source.detach()
        place = source.location
    call("import", place, f"{uri}?table=t", "--engine", "local")
    lines = call("-u", uri, "show", "t").stdout.splitlines()
    assert lines[lines.index("import") + 1].split() == ["source_uri", place]


def test_a_sample_of_many_columns_has_all_of_them(call, uri, tmp_path):
    wide = pa.table({f"column{number:02}": [f"value{number:02}"] for number in range(30)})
    with deltasql.connect(uri) as catalog:
        place = str(tmp_path / "wide")
        catalog.create_table("wide", location=place, schema=wide.schema).append(wide)
    names, values = call("-u", uri, "sample", "wide").stdout.splitlines()
    assert names.split() == wide.column_names
    assert values.split() == [column[0].as_py() for column in wide.columns]


def test_mirror_status_shows_the_whole_error(call, uri, tmp_path):
    with deltasql.connect(uri) as catalog:
        table = a_table(catalog, tmp_path, f"orders_{'x' * 100}")
        (tmp_path / table.location.removeprefix("file://") / "_delta_log" / f"{1:020}.json").mkdir()
        table.append(rows(1))
        error = catalog.mirror.status(table.name)["error"]
    assert len(error) > 60
    assert error in call("-u", uri, "mirror", "status").stdout
