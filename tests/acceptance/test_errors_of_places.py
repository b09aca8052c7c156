"""Databases, disks and files that are missing, full or something else: each is told as it is."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

import deltasql
from builders import SCHEMA, a_table, rows
from deltasql.errors import (
    CatalogUnavailableError,
    ConfigError,
    LoginRefusedError,
    PermissionDeniedError,
    SchemaMissingError,
    StorageUnavailableError,
    TableNotFoundError,
)
from deltasql.settings import Settings
from faults.test_disk_full import fill, has_mounts
from processes import PATHS

NOBODY = 65534
# The disk is a small one in a mount namespace of its own: it is gone with the process.
PROGRAM = """
import os, pathlib, sys
sys.path[:0] = sys.argv[2].split(os.pathsep)
from acceptance import test_errors_of_places as tests
getattr(tests, sys.argv[3])(pathlib.Path(sys.argv[1]))
"""


def told(call, uri, *words, code):
    """Return the error of a command as JSON, after a look that the text says the same."""
    text = call("-u", uri, *words, code=code).stderr
    error = json.loads(call("-u", uri, "-o", "json", *words, code=code).stderr)["error"]
    assert text == f"error[{error['code']}]: {error['message']}\n\nhint: {error['hint']}\n"
    assert (error["exit_code"], "\n" in error["message"]) == (code, False)
    return error


def noted(error):
    """What a Python traceback shows below the message."""
    return error.__notes__ == [f"[{error.code}] hint: {error.advice}"]


@pytest.mark.parametrize(
    ("change", "reason", "hint"),
    [
        (("/postgres/t_", "/postgres/no_"), "database", "createdb"),
        (("user=", "user=no_"), "role", "createuser"),
    ],
)
def test_a_database_or_a_role_that_is_missing(call, postgres_server, change, reason, hint):
    uri = postgres_server.uri(postgres_server.create_database_name())
    wrong = uri.replace(*change)
    assert wrong != uri
    error = told(call, wrong, "tables", code=1)
    assert (error["code"], error["retryable"]) == ("DS312", False)
    assert f"refused the login: {reason} " in error["message"]
    assert "does not exist" in error["message"]
    assert hint in error["hint"]
    with pytest.raises(LoginRefusedError) as caught:
        deltasql.connect(wrong)
    assert noted(caught.value)


def test_a_folder_of_the_database_that_is_missing(call, tmp_path):
    uri = f"deltasql://sqlite/{tmp_path}/no/such/c.db"
    error = told(call, uri, "db", "init", code=2)
    assert error["code"] == "DS100"
    assert f"The folder {tmp_path}/no/such " in error["message"]
    assert "Create the folder" in error["hint"]
    assert not (tmp_path / "no").exists()


def test_a_folder_in_the_place_of_the_database(call, tmp_path):
    (tmp_path / "c.db").mkdir()
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    error = told(call, uri, "tables", code=1)
    assert (error["code"], "it is a folder" in error["message"]) == ("DS309", True)
    error = told(call, uri, "db", "init", code=2)
    assert (error["code"], "is a folder" in error["message"]) == ("DS100", True)


@pytest.mark.parametrize("content", [b"no database, a text " * 500, b"short"])
def test_a_file_that_is_no_database_is_told_and_left_alone(call, tmp_path, content):
    file = tmp_path / "c.db"
    file.write_bytes(content)
    uri = f"deltasql://sqlite/{file}"
    made = told(call, uri, "db", "init", code=1)
    assert (made["code"], made["message"]) == (
        "DS310",
        f"The file {file} is not a SQLite database.",
    )
    assert "backup" in made["hint"]
    error = told(call, uri, "tables", code=1)
    assert error["code"] == "DS309"
    assert error["message"] == (
        f"There is no catalog at {file}: the file is not a SQLite database."
    )
    assert "Check the path" in error["hint"]
    with pytest.raises(SchemaMissingError) as caught:
        deltasql.connect(uri).tables()
    assert noted(caught.value)
    assert file.read_bytes() == content


@contextmanager
def somebody_else(folder, mode):
    """Let this process meet a folder as a user without its rights; root has every right."""
    before = folder.stat().st_mode
    folder.chmod(mode)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(before)


@pytest.fixture
def open_folder():
    """A folder that every user may enter: those of pytest are private."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("variable", ["XDG_CONFIG_HOME", "HOME", "DELTASQL_CONFIG"])
def test_a_folder_of_settings_that_may_not_be_read(open_folder, variable):
    private = open_folder / "private"
    private.mkdir()
    asked = private / "x.toml" if variable == "DELTASQL_CONFIG" else private
    with somebody_else(private, 0), pytest.raises(ConfigError) as caught:
        Settings.load({variable: str(asked)}, open_folder)
    assert str(private) in caught.value.message
    assert "Permission denied" in caught.value.message
    assert "DELTASQL_CONFIG" in caught.value.advice
    assert caught.value.exit_code == 2


def test_a_name_of_a_settings_folder_that_is_too_long(run, tmp_path):
    error = run("tables", code=2, XDG_CONFIG_HOME=f"{tmp_path}/{'x' * 300}").stderr
    assert error.startswith("error[DS100]: The configuration file ")


def test_a_settings_file_that_may_not_be_read(open_folder):
    file = open_folder / "deltasql.toml"
    file.touch()
    with somebody_else(file, 0), pytest.raises(ConfigError, match="Permission denied"):
        Settings.load({}, open_folder)


def test_a_database_that_this_user_may_not_open(open_folder):
    file = open_folder / "c.db"
    with deltasql.connect(f"deltasql://sqlite/{file}") as catalog:
        catalog.create_if_missing()
    for place in (file, open_folder):
        with somebody_else(place, 0), pytest.raises(PermissionDeniedError) as caught:
            deltasql.connect(f"deltasql://sqlite/{file}", settings=Settings())
        assert str(file) in caught.value.message
        assert "mode" in caught.value.advice


def on_a_small_disk(tmp_path, name):
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "run.py").write_text(PROGRAM)
    inside = 'mount -t tmpfs -o size=1500k none "$1" && exec "$2" "$3" "$1" "$4" "$5"'
    words = [str(disk), sys.executable, str(tmp_path / "run.py"), PATHS, name]
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", inside, "sh", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def table_on_a_full_disk(place):
    """Write to a table whose disk is full. Runs on the small disk."""
    with deltasql.connect(f"deltasql://sqlite/{place.parent}/c.db") as catalog:
        table = catalog.create_table("t", location=str(place / "t"), schema=SCHEMA)
        table.append(rows(1))
        fill(place / "ballast")
        for write in (lambda: table.append(rows(2)), lambda: catalog.mirror.checkpoint("t")):
            with pytest.raises(StorageUnavailableError, match="No space left") as caught:
                write()
            assert caught.value.exit_code == 6
            assert "Make room" in caught.value.advice
            assert noted(caught.value)
        assert table.version == 1
        assert table.alter(properties={"a": "b"}) == 2  # SQL has room: only the log is behind
        assert "No space left" in catalog.mirror.status("t")["error"]


def catalog_on_a_full_disk(place):
    """Commit to a catalog whose disk is full. Runs on the small disk."""
    with deltasql.connect(f"deltasql://sqlite/{place}/c.db") as catalog:
        table = catalog.create_table("t", location=str(place.parent / "t"), schema=SCHEMA)
        fill(place / "ballast")
        before = 0
        with pytest.raises(CatalogUnavailableError, match="is full") as caught:
            for number in range(1000):  # the log of the database has some room left
                before = table.append(rows(number))
        assert caught.value.message.startswith("Nothing was committed: ")
        assert "Make room" in caught.value.advice
        assert caught.value.exit_code == 6
        assert noted(caught.value)
        assert table.version == before
        with pytest.raises(CatalogUnavailableError, match="is full"):
            table.alter(properties={"a": "b"})
        (place / "ballast").unlink()
        assert table.alter(properties={"a": "b"}) == before + 1


@pytest.mark.skipif(not has_mounts(), reason="no mount namespaces for users here")
@pytest.mark.parametrize("name", ["table_on_a_full_disk", "catalog_on_a_full_disk"])
def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path, name):
    on_a_small_disk(tmp_path, name)


@pytest.mark.parametrize(
    ("name", "meant"), [("ordres", "orders"), ("Orders", "orders"), ("sales.oders", "sales.orders")]
)
def test_a_misspelt_table_gets_a_suggestion(catalog_uri, tmp_path, call, name, meant):
    with deltasql.connect(catalog_uri) as catalog:
        a_table(catalog, tmp_path, "orders")
        a_table(catalog, tmp_path, "sales.orders")
        with pytest.raises(TableNotFoundError) as caught:
            catalog.table(name)
        assert f"Did you mean {meant}?" in caught.value.advice
        with pytest.raises(TableNotFoundError) as caught:
            catalog.table("xyzzy")
        assert "Did you mean" not in caught.value.advice
    for words in (["show", name], ["drop", name, "--yes"], ["mirror", "verify", name]):
        error = told(call, catalog_uri, *words, code=1)
        assert (error["code"], f"Did you mean {meant}?" in error["hint"]) == ("DS301", True)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"env": {"DELTASQL_MIRROR_INLINE_DEADLIN": "3s"}}, "DELTASQL_MIRROR_INLINE_DEADLINE"),
        ({"flags": {"mirror.inline-deadline": "3s"}}, "mirror.inline_deadline"),
        ({"file": "[miror]\nmode = 'off'"}, "mirror.mode"),
        ({"file": "[profiles.test]\n", "flags": {"profile": "tset"}}, "test"),
    ],
)
def test_a_misspelt_setting_gets_a_suggestion(tmp_path, given, meant):
    (tmp_path / "deltasql.toml").write_text(given.get("file", ""))
    with pytest.raises(ConfigError) as caught:
        Settings.load(given.get("env", {}), tmp_path, given.get("flags"))
    assert f"Did you mean {meant}?" in caught.value.advice


def test_a_misspelt_setting_of_a_table_gets_a_suggestion(tmp_path):
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/c.db") as catalog:
        table = a_table(catalog, tmp_path)
        with pytest.raises(ConfigError) as caught:
            table.alter(properties={"deltasql.mirror.mod": "off"})
    assert "Did you mean mirror.mode?" in caught.value.advice
