"""NOT LIKE means the opposite of LIKE, in scans, deletes, overwrites and constraints."""

import pyarrow as pa
import pytest

from deltasql.errors import ConstraintViolationError

TEXTS = pa.schema([("p", pa.string()), ("id", pa.int64())])
pytestmark = pytest.mark.req("R37")


def texts(*values):
    return pa.table({"p": list(values), "id": list(range(len(values)))}, schema=TEXTS)


def found(table, where=None):
    return sorted(table.scan(where=where).to_arrow()["p"].to_pylist())


@pytest.fixture
def parted(catalog, tmp_path):
    table = catalog.create_table(
        "texts", location=str(tmp_path / "texts"), schema=TEXTS, partition_by=["p"]
    )
    table.append(texts("abc", "abd", "xyz"))
    return table


def test_a_scan(parted):
    assert found(parted, "p not like 'ab%'") == ["xyz"]
    assert found(parted, "p like 'ab%'") == ["abc", "abd"]


def test_a_delete(parted):
    parted.delete("p not like 'ab%'")
    assert found(parted) == ["abc", "abd"]


def test_an_overwrite(parted):
    parted.overwrite(texts("new"), where="p not like 'ab%'")
    assert found(parted) == ["abc", "abd", "new"]


def test_a_constraint(catalog, tmp_path):
    table = catalog.create_table(
        "checked",
        location=str(tmp_path / "checked"),
        schema=TEXTS,
        properties={"delta.constraints.good": "p not like 'bad%'"},
    )
    table.append(texts("good"))
    with pytest.raises(ConstraintViolationError, match="good"):
        table.append(texts("bad1"))
    assert found(table) == ["good"]
