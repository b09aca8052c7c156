"""Commands that look at a URI without a catalog say so, and leave nothing behind."""

import pytest
from deltalake import write_deltalake

from builders import rows
from commands import data

LOOKS = [
    "tables",
    "show orders",
    "history orders",
    "files orders",
    "sample orders",
    "diff orders 0 1",
    "doctor",
    "fsck",
    "vacuum orders",
    "rename orders sales",
    "drop orders --yes",
    "detach orders --yes",
    "alter orders --set a=b",
    "compact orders",
    "restore orders --version 0",
    "checkpoint orders",
    "cutover orders",
    "recover --yes",
    "mirror run --once",
    "mirror run",
    "mirror status",
    "mirror verify",
    "mirror repair orders",
    "mirror pause orders",
    "mirror cleanup orders",
    "db status",
    "db migrate",
    "db forget --older-than 1d --yes",
    "import {source} --validate-only",
]


@pytest.fixture
def source(tmp_path):
    write_deltalake(tmp_path / "lake" / "orders", rows(1))
    return str(tmp_path / "lake" / "orders")


@pytest.mark.parametrize("line", LOOKS)
def test_looking_where_no_catalog_is_leaves_nothing(call, tmp_path, source, line):
    uri = f"deltasql://sqlite/{tmp_path}/typo.db"
    before = sorted(tmp_path.rglob("*"))
    done = call("-u", uri, *line.format(source=source).split(), code=1)
    assert "DS309" in done.stdout + done.stderr
    assert "there is no such file" in done.stdout + done.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_the_doctor_says_that_the_database_is_missing(call, tmp_path):
    done = call("-u", f"deltasql://sqlite/{tmp_path}/typo.db", "doctor", "-o", "json", code=1)
    rows = {row["check"]: row for row in data(done)}
    assert rows["database"]["verdict"] == "fail"
    assert rows["database"]["detail"].startswith("DS309: There is no catalog at")


def test_a_schema_that_does_not_exist_is_named(call, postgres_server):
    uri = postgres_server.uri(postgres_server.create_database_name(), "typo")
    for line in ("tables", "db status", "mirror run --once"):
        told = call("-u", uri, *line.split(), code=1).stderr
        assert told.startswith("error[DS309]: There is no catalog in schema typo: the schema does")


def test_a_preview_of_an_import_needs_no_catalog_and_makes_none(call, tmp_path, source):
    uri = f"deltasql://sqlite/{tmp_path}/new.db"
    before = sorted(tmp_path.rglob("*"))
    call("import", source, uri, "--dry-run", "--engine", "local")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("first", ["create", "import", "db init"])
def test_commands_that_create_something_make_the_catalog(call, tmp_path, source, first):
    uri = f"deltasql://sqlite/{tmp_path}/new.db"
    lines = {
        "create": f"create orders --location {tmp_path}/new --column id:long",
        "import": f"import {source} --engine local",
        "db init": "db init",
    }
    call("-u", uri, *lines[first].split())
    names = [row["name"] for row in data(call("-u", uri, "tables", "-o", "json"))]
    assert names == ([] if first == "db init" else ["orders"])
