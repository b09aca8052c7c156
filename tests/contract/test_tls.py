"""TLS and passwords on the way to PostgreSQL, with both drivers and a server that insists."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

import psycopg
import pyarrow as pa
import pytest

import deltasql
import tls
from builders import SCHEMA, rows
from deltasql.database.postgres import PostgresDatabase
from deltasql.errors import LoginRefusedError
from deltasql.testing import inspect
from deltasql.uri import parse_uri
from pg_server import UnavailableError
from readers import require
from tls import CERTIFIED, LOGIN, PASSWORD, TlsServer

pytestmark = pytest.mark.req("R96")
_ONE = pa.schema([("one", pa.int64())])


@pytest.fixture(scope="module")
def secure():
    """A server that takes encrypted logins only."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = tls.start_tls_server(Path(folder))
        except UnavailableError as error:
            require("postgres", f"with TLS: {error}")
        yield found
        found.server.remove()


@pytest.fixture(autouse=True)
def no_other_credentials(monkeypatch, tmp_path):
    """Only what a test gives counts, not what the machine has."""
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def fresh_schema(secure):
    yield
    with psycopg.connect(f"{secure.server.dsn()}?sslmode=require", autocommit=True) as connection:
        connection.execute("drop schema if exists lake cascade")


def use(uri: str, secure: TlsServer, tmp_path) -> list[tuple[bool, str]]:
    """Work through both drivers and return how the server saw their connections."""
    with deltasql.connect(uri) as catalog:
        place = str(tmp_path / "t")
        table = catalog.create_table("t", location=place, schema=SCHEMA, exist_ok=True)
        table.append(rows(1))
        database = inspect(catalog).database
        assert database.arrow("select 1::bigint as one", {}, _ONE).num_rows == 1
        with psycopg.connect(f"{secure.server.dsn()}?sslmode=require") as connection:
            seen = connection.execute(
                "select s.ssl, a.usename from pg_stat_ssl s join pg_stat_activity a using (pid)"
                " where a.usename <> 'postgres'"
            ).fetchall()
        assert len(database._arrow_pool._idle) == 1
        assert len(seen) > len(database._arrow_pool._idle)
        return seen


def refused(uri: str) -> LoginRefusedError:
    """Both drivers are refused in the same words; nothing shows the password."""
    with pytest.raises(LoginRefusedError) as error:
        deltasql.connect(uri)
    parsed = parse_uri(uri)
    database = PostgresDatabase(parsed.conninfo(), parsed.schema)
    with pytest.raises(LoginRefusedError) as other:
        database._connect_arrow()
    assert other.value.message == error.value.message
    assert other.value.advice == error.value.advice
    for told in (error.value, other.value):
        text = told.message + told.advice + repr(told.context) + str(told.__cause__)
        assert PASSWORD not in text
        assert not told.retryable
    return error.value


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_both_drivers_encrypt(secure, fresh_schema, mode, tmp_path):
    where = {"sslmode": mode, "password": quote(PASSWORD, safe="")}
    if mode != "require":
        where["sslrootcert"] = f"{secure.folder}/ca.pem"
    seen = use(secure.uri(LOGIN, **where), secure, tmp_path)
    assert set(seen) == {(True, LOGIN)}


def test_a_certificate_takes_the_place_of_a_password(secure, fresh_schema, tmp_path):
    files = {"sslcert": f"{secure.folder}/client.pem", "sslkey": f"{secure.folder}/client.key"}
    files |= {"sslmode": "verify-full", "sslrootcert": f"{secure.folder}/ca.pem"}
    assert set(use(secure.uri(CERTIFIED, **files), secure, tmp_path)) == {(True, CERTIFIED)}


def test_a_server_that_another_authority_signed_is_refused(secure):
    wrong = {"sslmode": "verify-full", "sslrootcert": f"{secure.folder}/stranger.pem"}
    error = refused(secure.uri(LOGIN, **wrong, password=quote(PASSWORD, safe="")))
    assert "certificate verify failed" in error.message
    assert "sslrootcert" in error.advice


def test_a_server_with_another_name_is_refused(secure):
    where = {"sslmode": "verify-full", "sslrootcert": f"{secure.folder}/ca.pem"}
    uri = secure.uri(LOGIN, **where).replace("host=localhost", "host=elsewhere")
    error = refused(uri)
    assert "elsewhere" in error.message
    assert "by the name that the certificate holds" in error.advice


def test_an_authority_that_cannot_be_read_is_refused(secure):
    error = refused(secure.uri(LOGIN, sslmode="verify-full", sslrootcert="/nowhere/ca.pem"))
    assert "/nowhere/ca.pem" in error.message


def test_a_login_without_encryption_is_refused_by_the_server(secure):
    error = refused(secure.uri(LOGIN, sslmode="disable", password=quote(PASSWORD, safe="")))
    assert "no encryption" in error.message
    assert "sslmode" in error.advice


def test_a_server_without_tls_is_refused_by_us(postgres_server):
    error = refused(f"{postgres_server.uri('postgres')}&sslmode=require")
    assert "does not support SSL" in error.message


@pytest.mark.parametrize("word", [None, "wrong"])
def test_a_wrong_or_missing_password_is_no_outage(secure, word):
    given = {} if word is None else {"password": word}
    error = refused(secure.uri(LOGIN, sslmode="require", **given))
    assert "password" in error.message
    assert "PGPASSWORD" in error.advice
    assert error.exit_code == 1


def pgpass(secure: TlsServer, file: Path) -> None:
    word = PASSWORD.replace("\\", "\\\\").replace(":", "\\:")
    file.write_text(f"localhost:{secure.server.port}:*:{LOGIN}:{word}\n")
    file.chmod(0o600)


@pytest.mark.parametrize(
    "source", ["PGPASSWORD", "PGPASSFILE", "passfile", ".pgpass", "password_file", "service"]
)
def test_a_password_comes_from_where_libpq_finds_it(
    secure, fresh_schema, source, tmp_path, monkeypatch
):
    where = {"sslmode": "require"}
    file = tmp_path / (".pgpass" if source == ".pgpass" else "given")
    if source == "PGPASSWORD":
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
    elif source == "password_file":
        file.write_text(PASSWORD + "\n")
        where["password_file"] = str(file)
    elif source == "service":
        file.write_text(f"[lake]\nuser={LOGIN}\npassword={PASSWORD}\n")
        monkeypatch.setenv("PGSERVICEFILE", str(file))
        where["service"] = "lake"
    else:
        pgpass(secure, file)
        if source == "PGPASSFILE":
            monkeypatch.setenv("PGPASSFILE", str(file))
        elif source == "passfile":
            where["passfile"] = str(file)
    uri = secure.uri(LOGIN, **where)
    if source == "service":
        uri = uri.replace(f"user={LOGIN}&", "")
    assert set(use(uri, secure, tmp_path)) == {(True, LOGIN)}
    assert PASSWORD not in str(parse_uri(uri)) + repr(parse_uri(uri))


def test_the_command_line_refuses_a_stranger_without_a_traceback(secure, tmp_path):
    wrong = {"sslmode": "verify-full", "sslrootcert": f"{secure.folder}/stranger.pem"}
    done = subprocess.run(
        [sys.executable, "-m", "deltasql", "-u", secure.uri(LOGIN, **wrong), "tables"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PGPASSWORD": PASSWORD},
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error[DS312]: The database refused the login: ")
    assert "\nhint: Name the authority that signed the server's certificate" in done.stderr
    assert "Traceback" not in done.stderr
    assert PASSWORD not in done.stdout + done.stderr
