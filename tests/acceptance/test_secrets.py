"""A canary secret in every place that takes one: no text that leaves the library shows it."""

import json
import logging
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import pytest

import deltasql
import pg_server
import servers
from builders import SCHEMA, an_add
from deltasql.errors import DeltaSqlError
from deltasql.settings import MirrorSettings, Settings
from deltasql.testing import inspect
from readers import require
from server_process import free_port

CANARY = "c4n4ry+S3cr3t/w0rd"
QUOTED = "c4n4ry%2BS3cr3t%2Fw0rd"
pytestmark = pytest.mark.req("R96")


def texts(error: BaseException) -> str:
    """Everything that a program might print of an error, its causes and contexts included."""
    found, seen, todo = [], set(), [error]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        found += [str(one), repr(one), repr(one.args), repr(getattr(one, "__notes__", ""))]
        found += [repr(getattr(one, "context", "")), repr(getattr(one, "advice", ""))]
        found.append("".join(traceback.format_exception(one)))
        todo += [one.__cause__, one.__context__]
    return "\n".join(found)


def check(*given: object) -> None:
    for text in map(str, given):
        for secret in (CANARY, QUOTED, CANARY.split("+", maxsplit=1)[0]):
            assert secret not in text, text.replace(secret, "<<<SECRET>>>")[:2000]


@pytest.fixture(autouse=True)
def no_record_shows_it(caplog, capfd):
    """Whatever the test does, no log record and no output may hold the canary."""
    caplog.set_level(logging.DEBUG)
    yield
    for when in ("setup", "call"):
        for record in caplog.get_records(when):
            check(record.getMessage(), record.__dict__)
            if record.exc_info and record.exc_info[1]:
                check(texts(record.exc_info[1]))
    check(*capfd.readouterr())


@pytest.fixture
def closed_port() -> int:
    """A port on which nobody listens."""
    return free_port()


@pytest.fixture(scope="module")
def strict_server():
    """A PostgreSQL that wants a password, which nobody has."""
    builds = pg_server.find_builds()
    if not builds:
        require("postgres", "no installation found")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        rules = Path(folder) / "hba.conf"
        rules.write_text("host all all 127.0.0.1/32 scram-sha-256\n")
        rules.chmod(0o644)
        try:
            server = pg_server.start_server(builds[0], (*pg_server.FAST, f"hba_file={rules}"))
        except pg_server.UnavailableError as error:
            require("postgres", str(error))
        yield server
        server.remove()


def refused(act) -> str:
    with pytest.raises(DeltaSqlError) as error:
        act()
    check(texts(error.value))
    return str(error.value)


FORMS = [
    "postgresql://u:{secret}@127.0.0.1:{port}/db",
    "postgres://u:{secret}@127.0.0.1:{port}/db?connect_timeout=2",
    "deltasql://postgres/db/s?host=127.0.0.1&port={port}&user=u&password={secret}",
    "deltasql://postgres/db/s/t?host=127.0.0.1&port={port}&user=u&sslpassword={secret}",
]


@pytest.mark.parametrize("form", FORMS)
def test_a_password_for_a_port_where_nobody_listens(form, closed_port):
    refused(lambda: deltasql.connect(form.format(secret=QUOTED, port=closed_port)))


@pytest.mark.parametrize("form", FORMS[:3])
def test_a_wrong_password(form, strict_server):
    text = form.format(secret=QUOTED, port=strict_server.port)
    message = refused(lambda: deltasql.connect(text))
    assert "password" in message.lower() or "database" in message.lower()


@pytest.mark.parametrize("port_of", ["closed_port", "strict_server"])
def test_a_password_in_the_environment(port_of, request, monkeypatch):
    found = request.getfixturevalue(port_of)
    monkeypatch.setenv("PGPASSWORD", CANARY)
    port = getattr(found, "port", found)
    uri = f"deltasql://postgres/db/s?host=127.0.0.1&port={port}&user=u"
    refused(lambda: deltasql.connect(uri))


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u:{secret}@127.0.0.1:notaport/db",
        "postgresql://u:{secret}@[::1/db",
        "mysql://u:{secret}@127.0.0.1/db",
        "deltasql://oracle/x?password={secret}",
        "deltasql://postgres/db/s?passwrd={secret}",
        "deltasql://postgres/db/s?password={secret}&password={secret}",
        "deltasql://sqlite/x.db?password={secret}",
        "{secret}",
        "host=127.0.0.1 password={secret}",
    ],
)
def test_a_uri_that_cannot_be_read_is_not_repeated(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for secret in (CANARY, QUOTED):
        refused(lambda secret=secret: deltasql.connect(text.format(secret=secret)))


def test_an_open_catalog_does_not_show_its_password(postgres_server):
    name = postgres_server.create_database_name()
    uri = f"postgresql://postgres:{QUOTED}@127.0.0.1:{postgres_server.port}/{name}?schema=s"
    settings = Settings(uri=uri, stores={"s3://b": {"aws_secret_access_key": CANARY}})
    options = {"aws_secret_access_key": CANARY, "aws_session_token": CANARY}
    with deltasql.connect(uri, settings=settings, storage_options=options) as catalog:
        table = catalog.create_table("t", location="memory://secrets/t", schema=SCHEMA)
        opened = inspect(catalog)
        for one in (catalog, opened, settings, table, table.snapshot(), opened.metastore):
            check(repr(one), str(one))
        check(repr(opened.database), repr(opened.engine), repr(table.detail()))
        check(repr(table.scan()), repr(catalog.transaction()), repr(table.history()))
        refused(lambda: catalog.table("nowhere"))


def stores(port: int) -> list[tuple[str, dict[str, str]]]:
    endpoint = f"http://127.0.0.1:{port}"
    quick = {**servers.LOOPBACK_ONLY, "timeout": "2s", "connect_timeout": "1s"}
    account = {"gcs_base_url": endpoint, "private_key": CANARY, "private_key_id": CANARY}
    account |= {"client_email": "a@b", "disable_oauth": False}
    azure = {"azure_storage_account_name": "a", "azure_storage_endpoint": f"{endpoint}/a", **quick}
    aws = {"aws_endpoint_url": endpoint, "aws_region": "us-east-1", **quick}
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": CANARY}
    return [
        ("s3://b/t", {**aws, **keys}),
        ("s3://b/t", {**aws, **keys, "aws_session_token": CANARY}),
        ("az://c/t", {**azure, "azure_storage_account_key": CANARY}),
        (
            "az://c/t",
            {**azure, "azure_storage_account_key": "Y2FuYXJ5", "sas_token": f"sig={CANARY}"},
        ),
        ("az://c/t", {**azure, "azure_storage_sas_key": f"sv=1&sig={QUOTED}"}),
        ("gs://b/t", {"google_service_account_key": json.dumps(account), **quick}),
        ("gs://b/t", {"google_service_account_key": f'{{"private_key": {CANARY}', **quick}),
        ("s3://b/t", {**aws, **keys, "aws_secret_acces_key": CANARY}),
        ("s3://b/t", {**aws, **keys, "secret_access_key": CANARY}),
        ("s3://b/t", {**keys, **quick, "aws_endpoint_url": f"http://u:{QUOTED}@127.0.0.1:{port}"}),
        ("s3://b/t", {**aws, **keys, "timeout": CANARY}),
        ("s3://b/t", {**aws, **keys, "proxy_url": f"http://u:{QUOTED}@127.0.0.1:{port}"}),
    ]


@pytest.mark.parametrize("number", range(12))
def test_storage_options_do_not_show_in_any_failure(number, closed_port, tmp_path):
    location, options = stores(closed_port)[number]
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    with deltasql.connect(uri, storage_options=options, settings=Settings()) as catalog:
        refused(lambda: catalog.create_table("t", location=location, schema=SCHEMA))
        check(repr(inspect(catalog).session), repr(inspect(catalog).connection.stores._opened))


def test_store_settings_do_not_show_in_any_failure(closed_port, tmp_path):
    location, options = stores(closed_port)[0]
    lines = [f"{key} = {json.dumps(value)}" for key, value in options.items()]
    (tmp_path / "deltasql.toml").write_text("\n".join(['[stores."s3://b"]', *lines]))
    env = {"HOME": str(tmp_path), "DELTASQL_URI": f"deltasql://sqlite/{tmp_path}/c.db"}
    settings = Settings.load(env, tmp_path)
    assert settings.stores["s3://b"]["aws_secret_access_key"] == CANARY
    check(repr(settings), str(settings))
    with deltasql.connect(settings=settings) as catalog:
        refused(lambda: catalog.create_table("t", location=location, schema=SCHEMA))
        check(repr(inspect(catalog).session), repr(inspect(catalog).settings))


@pytest.mark.parametrize(
    "text",
    [
        'uri = "postgresql://u:{secret}@h/d"\nbroken',
        '[stores."s3://b"]\naws_secret_access_key = {secret}',
        '[stores]\naws_secret_access_key = "{secret}"',
        '[mirror]\nmode = "{secret}"',
        'uri = ["{secret}"]',
        '[unknown]\nkey = "{secret}"',
    ],
)
def test_a_configuration_that_cannot_be_read_is_not_repeated(text, tmp_path):
    (tmp_path / "deltasql.toml").write_text(text.format(secret=CANARY))
    refused(lambda: Settings.load({"HOME": str(tmp_path)}, tmp_path))


def test_a_failed_mirror_keeps_no_secret(s3_server, fresh_name, tmp_path):
    """403 for a wrong key: the queue, the events and the status tell why, and nothing more."""
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    location = f"s3://{servers.BUCKET}/{fresh_name}"
    right = servers.s3_options(s3_server.endpoint)
    wrong = {**right, "AWS_SECRET_ACCESS_KEY": CANARY}
    settings = Settings(mirror=MirrorSettings(mode="inline"))
    with deltasql.connect(uri, settings=settings, storage_options=right) as catalog:
        catalog.create_table("t", location=location, schema=SCHEMA)
    events: list[object] = []
    with deltasql.connect(
        uri, settings=settings, storage_options=wrong, sink=events.append
    ) as catalog:
        table = catalog.table("t")
        assert table.commit([an_add("f", partition_values={})]) == 1
        status = catalog.mirror.status("t")
        refused(lambda: table.wait_mirrored(timeout=0.5))
        stored = inspect(catalog).queue.get_status(table.table_id, 1)
        assert status["mirrored_through"] == 0
        assert stored.error_message
        assert any("Failed" in type(event).__name__ for event in events)
        check(repr(status), repr(stored), repr(events), repr(table.detail()))


@pytest.mark.parametrize("flags", [[], ["-vv"], ["--debug"], ["-vv", "--debug", "-o", "json"]])
def test_the_command_line_does_not_show_it(flags, closed_port, tmp_path):
    uri = FORMS[0].format(secret=QUOTED, port=closed_port)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DELTASQL_", "PG"))}
    for given in (
        {"DELTASQL_URI": uri},
        {"DELTASQL_URI": FORMS[2].format(secret="", port=closed_port), "PGPASSWORD": CANARY},
    ):
        done = subprocess.run(
            [sys.executable, "-m", "deltasql", *flags, "tables"],
            cwd=tmp_path,
            env={**env, "HOME": str(tmp_path), **given},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode != 0
        check(done.stdout, done.stderr)
