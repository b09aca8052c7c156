"""Real tables, taken over and given back: whoever could write them before can do so again."""

import shutil

import pyarrow as pa
import pytest

import deltasql
from corpora import EXPECTED, needs_corpora
from deltasql.errors import DeltaSqlError

pytestmark = [pytest.mark.req("R102"), needs_corpora]


def can_append(root) -> bool:
    """Let deltalake append a row of nulls."""
    import deltalake

    try:
        schema = pa.schema(deltalake.DeltaTable(str(root)).schema().to_arrow())
        row = pa.Table.from_pylist([{}], schema=schema)
        deltalake.write_deltalake(str(root), row, mode="append")
    except Exception:  # noqa: BLE001 (whatever it says, it did not append)
        return False
    return True


def give_back(tables, tmp_path, name) -> bool | None:
    """Take a table over and give it back; None where deltalake or we could not write it."""
    before = shutil.copytree(tables / name / "delta", tmp_path / f"{name}-before")
    if not can_append(before):
        return None
    root = shutil.copytree(tables / name / "delta", tmp_path / name)
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/{name}.db") as catalog:
        try:
            catalog.import_table(str(root), name="t", engine="local")
            catalog.cutover("t")
        except DeltaSqlError:
            return None
        catalog.table("t").detach()
    return can_append(root)


@pytest.mark.timeout(600)
def test_deltalake_appends_after_detach_to_every_table_it_could_append_to_before(tables, tmp_path):
    found = {name: give_back(tables, tmp_path, name) for name in sorted(EXPECTED)}
    assert [name for name, could in found.items() if could is False] == []
    assert sum(could is True for could in found.values()) > len(found) // 4
