"""What a store failure is called, by the storage library's real texts, and what is tried again."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import deltasql
import servers
from builders import SCHEMA, ids, rows
from deltasql.errors import (
    AccessDeniedError,
    StorageError,
    StorageUnavailableError,
)
from deltasql.storage.resolve import open_store

KEYS = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "aws_region": "us-east-1"}
CALLS = {
    "put": lambda store: store.put("k", b"x"),
    "create": lambda store: store.put_if_absent("k", b"x"),
    "get": lambda store: store.get("k"),
    "list": lambda store: list(store.list_from("")),
    "data file": lambda store: write(store, "k.parquet", b"x"),
    "large data file": lambda store: write(store, "k.parquet", b"x" * 11_000_000),
}


def write(store, key, data):
    with store.open_output(key) as file:
        file.write(data)


@contextmanager
def server(answers):
    """An S3 server that answers each request with the next of `answers`, the last for ever."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            length = int(self.headers.get("content-length", 0))
            self.rfile.read(length)
            status, body = answers[min(len(asked), len(answers) - 1)]
            asked.append((self.command, self.path))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.send_header("etag", '"e"')
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 (the library's names)

        def log_message(self, *arguments):
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{made.server_port}", asked
    finally:
        made.shutdown()
        made.server_close()
        thread.join()


def s3(endpoint, **more):
    return open_store("s3://bucket/t", {**KEYS, "aws_endpoint": endpoint, **more})


@pytest.mark.parametrize("call", list(CALLS))
def test_plain_http_without_the_option_is_told_by_the_option(call):
    with pytest.raises(StorageError, match="allow_http") as told:
        CALLS[call](s3("http://127.0.0.1:9"))
    assert not told.value.retryable


@pytest.mark.parametrize("call", list(CALLS))
def test_a_refused_connection_is_told(call):
    with pytest.raises(StorageUnavailableError, match="the connection was refused"):
        CALLS[call](s3("http://127.0.0.1:9", allow_http="true"))


@pytest.mark.parametrize("call", ["put", "create", "list", "data file", "large data file"])
def test_a_bucket_that_is_not_there_is_told(s3_server, call):
    options = servers.s3_options(s3_server.endpoint)
    store = open_store("s3://no-such-bucket/t", options)
    with pytest.raises(StorageError, match="bucket or container does not exist") as told:
        CALLS[call](store)
    assert not told.value.retryable


@pytest.mark.parametrize("call", list(CALLS))
@pytest.mark.parametrize("code", ["ExpiredToken", "RequestExpired", "TokenRefreshRequired"])
def test_expired_credentials_are_told(call, code):
    body = f"<Error><Code>{code}</Code><Message>canary</Message></Error>".encode()
    with (
        server([(400, body)]) as (endpoint, _),
        pytest.raises(AccessDeniedError, match="credentials have expired") as told,
    ):
        CALLS[call](s3(endpoint, allow_http="true"))
    assert "canary" not in str(told.value)


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_data_file_is_written_again_where_the_store_could_not(status):
    with server([(status, b""), (status, b""), (200, b"")]) as (endpoint, asked):
        write(s3(endpoint, allow_http="true"), "k.parquet", b"x")
    assert [method for method, _ in asked] == ["PUT"] * 3


def test_a_refusal_is_not_tried_again():
    with (
        server([(403, b"<Error><Code>AccessDenied</Code></Error>")]) as (endpoint, asked),
        pytest.raises(AccessDeniedError),
    ):
        write(s3(endpoint, allow_http="true"), "k.parquet", b"x")
    assert len(asked) == 1


def test_the_attempts_end():
    with (
        server([(503, b"")]) as (endpoint, asked),
        pytest.raises(StorageUnavailableError, match="status 503"),
    ):
        write(s3(endpoint, allow_http="true"), "k.parquet", b"x")
    assert 2 <= len(asked) <= 10


@pytest.mark.parametrize("call", ["put", "create"])
def test_what_others_may_write_too_is_asked_once(call):
    with server([(503, b"")]) as (endpoint, asked), pytest.raises(StorageUnavailableError):
        CALLS[call](s3(endpoint, allow_http="true"))
    assert len(asked) == 1


@pytest.mark.parametrize("action", ["503", "drop_request", "lost_reply"])
def test_an_append_outlives_a_data_write_that_failed(tmp_path, fault_proxy, fresh_name, action):
    options = servers.s3_options(fault_proxy.endpoint)
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    with deltasql.connect(uri, storage_options=options) as catalog:
        place = f"s3://{servers.BUCKET}/{fresh_name}"
        table = catalog.create_table("orders", location=place, schema=SCHEMA)
        rule = fault_proxy.rule(action, "PUT", r"\.parquet", count=2)
        table.append(rows(1, 2))
        assert rule.hits == 2
        assert ids(table) == [1, 2]
        assert len(table.snapshot().files(["path"])) == 1


def test_a_store_that_answers_others_only_has_lost_the_connection(fault_proxy, fresh_name):
    fault_proxy.rule("drop_request", "PUT", count=100)
    options = servers.s3_options(fault_proxy.endpoint)
    store = open_store(f"s3://{servers.BUCKET}/{fresh_name}", options)
    with pytest.raises(StorageUnavailableError, match="connection lost"):
        write(store, "k.parquet", b"x")
