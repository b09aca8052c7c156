"""What the network can do to a store, and that `create_once` tells the truth all the same."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import servers
from deltasql.errors import (
    AccessDeniedError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
)
from deltasql.storage.conditional_put import StoreVerdict, check_conditional_put
from deltasql.storage.port import Created, ObjectStore, create_once
from deltasql.storage.resolve import open_store
from fault_proxy import FaultProxy
from server_process import Server, free_port
from toxics import ToxicProxy

KEY = "_delta_log/00000000000000000000.json"
Opener = Callable[..., ObjectStore]


@pytest.fixture
def open_s3(fresh_name: str) -> Opener:
    """Open this test's table through any endpoint."""
    return lambda endpoint, timeout="20s": open_store(
        f"s3://{servers.BUCKET}/{fresh_name}", servers.s3_options(endpoint, timeout)
    )


@pytest.fixture
def direct(s3_server: Server, open_s3: Opener) -> ObjectStore:
    """The same table, past every proxy."""
    return open_s3(s3_server.endpoint)


@pytest.mark.req("R9")
def test_a_lost_reply_of_our_own_create_is_found_to_be_ours(
    fault_proxy: FaultProxy, open_s3: Opener, direct: ObjectStore
) -> None:
    store = open_s3(fault_proxy.endpoint)
    lost = fault_proxy.rule("lost_reply", "PUT")
    assert create_once(store, KEY, b"ours") is Created.SAME
    assert lost.hits == 1
    assert direct.get(KEY) == b"ours"
    assert [method for method, _, _ in fault_proxy.seen] == ["PUT", "GET"]  # no hidden retry


@pytest.mark.req("R9")
def test_a_lost_request_is_tried_again_by_the_caller(
    fault_proxy: FaultProxy, open_s3: Opener
) -> None:
    store = open_s3(fault_proxy.endpoint)
    fault_proxy.rule("drop_request", "PUT")
    with pytest.raises(StorageUnavailableError, match="connection lost"):
        create_once(store, KEY, b"ours")
    assert create_once(store, KEY, b"ours") is Created.CREATED


@pytest.mark.req("R10")
def test_a_409_is_a_retry_and_no_conflict(fault_proxy: FaultProxy, open_s3: Opener) -> None:
    store = open_s3(fault_proxy.endpoint)
    fault_proxy.rule("409", "PUT")
    with pytest.raises(StorageUnavailableError, match="not there"):
        create_once(store, KEY, b"ours")
    assert create_once(store, KEY, b"ours") is Created.CREATED


def test_a_409_of_a_plain_put_is_a_retry(fault_proxy: FaultProxy, open_s3: Opener) -> None:
    fault_proxy.rule("409", "PUT")
    with pytest.raises(StorageUnavailableError, match="409"):
        open_s3(fault_proxy.endpoint).put("_last_checkpoint", b"{}")


@pytest.mark.parametrize("status", ["500", "503", "429", "408"])
def test_a_busy_store_is_unavailable_and_named_by_status(
    fault_proxy: FaultProxy, open_s3: Opener, status: str
) -> None:
    store = open_s3(fault_proxy.endpoint)
    fault_proxy.rule(status, "PUT")
    with pytest.raises(StorageUnavailableError, match=f"status {status}") as failure:
        create_once(store, KEY, b"ours")
    assert failure.value.context["status"] == int(status)
    assert len(fault_proxy.seen) == 2  # the put and the look: one attempt each


@pytest.mark.req("R10")
@pytest.mark.parametrize("action", ["409", "503", "lost_reply"])
def test_foreign_bytes_are_a_difference_whatever_the_error(
    fault_proxy: FaultProxy, open_s3: Opener, direct: ObjectStore, action: str
) -> None:
    direct.put_if_absent(KEY, b"theirs")
    fault_proxy.rule(action, "PUT")
    assert create_once(open_s3(fault_proxy.endpoint), KEY, b"ours") is Created.DIFFERENT
    assert direct.get(KEY) == b"theirs"


def test_the_read_back_may_fail_too(fault_proxy: FaultProxy, open_s3: Opener) -> None:
    store = open_s3(fault_proxy.endpoint)
    fault_proxy.rule("lost_reply", "PUT")
    fault_proxy.rule("503", "GET")
    with pytest.raises(StorageUnavailableError):
        create_once(store, KEY, b"ours")
    assert create_once(store, KEY, b"ours") is Created.SAME


def test_a_refusal_is_no_unknown_outcome(fault_proxy: FaultProxy, open_s3: Opener) -> None:
    fault_proxy.rule("403", "PUT")
    with pytest.raises(AccessDeniedError, match="403"):
        create_once(open_s3(fault_proxy.endpoint), KEY, b"ours")


def test_a_cut_answer_is_never_taken_for_the_object(
    fault_proxy: FaultProxy, open_s3: Opener, direct: ObjectStore
) -> None:
    direct.put(KEY, b"x" * 50_000)
    fault_proxy.rule("truncate:20000", "GET")
    store = open_s3(fault_proxy.endpoint)
    with pytest.raises(StorageUnavailableError):
        store.get(KEY)
    assert len(store.get(KEY)) == 50_000


def test_a_timeout_ends_the_wait_and_the_object_is_ours(
    fault_proxy: FaultProxy, open_s3: Opener, direct: ObjectStore
) -> None:
    fault_proxy.rule("hang:4", "PUT")
    started = time.monotonic()
    assert create_once(open_s3(fault_proxy.endpoint, "1s"), KEY, b"ours") is Created.SAME
    assert time.monotonic() - started < 3.5
    assert direct.get(KEY) == b"ours"


def test_a_listing_that_fails_is_not_an_empty_one(
    fault_proxy: FaultProxy, open_s3: Opener, direct: ObjectStore
) -> None:
    direct.put(KEY, b"")
    store = open_s3(fault_proxy.endpoint)
    fault_proxy.rule("503", "GET")
    with pytest.raises(StorageUnavailableError):
        list(store.list_from("_delta_log/"))
    assert [info.key for info in store.list_from("_delta_log/")] == [KEY]


def test_an_upload_whose_part_fails_leaves_nothing(
    fault_proxy: FaultProxy, open_s3: Opener, direct: ObjectStore
) -> None:
    store = open_s3(fault_proxy.endpoint)
    fault_proxy.rule("503", "PUT", "partNumber=2", count=100)

    def write() -> None:
        with store.open_output("data/x.bin") as file:
            for _ in range(24):
                file.write(b"x" * 1_000_000)

    with pytest.raises(StorageUnavailableError):
        write()
    assert list(direct.list_from("data/")) == []


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        ({"kind": "limit_data", "stream": "downstream", "bytes": 0}, Created.SAME),
        ({"kind": "limit_data", "stream": "upstream", "bytes": 0}, Created.CREATED),
        ({"kind": "timeout", "stream": "downstream", "timeout": 300}, Created.SAME),
    ],
    ids=["reply lost", "request lost", "late close"],
)
def test_a_spoilt_connection_leaves_the_outcome_unknown(
    toxic_s3: ToxicProxy, open_s3: Opener, spoil: dict[str, Any], expected: Created
) -> None:
    store = open_s3(toxic_s3.endpoint, "5s")
    with toxic_s3.toxic(**spoil), pytest.raises(StorageUnavailableError):
        store.put_if_absent(KEY, b"ours")
    assert create_once(store, KEY, b"ours") is expected


def test_a_store_that_hangs_is_given_up_in_time(toxic_s3: ToxicProxy, open_s3: Opener) -> None:
    store = open_s3(toxic_s3.endpoint, "1s")
    started = time.monotonic()
    with (
        toxic_s3.toxic("timeout", timeout=0),
        pytest.raises(StorageUnavailableError, match="no answer in time"),
    ):
        store.put_if_absent(KEY, b"ours")
    assert time.monotonic() - started < 4


def test_a_store_that_is_down_is_unavailable_and_comes_back(
    toxic_s3: ToxicProxy, open_s3: Opener
) -> None:
    store = open_s3(toxic_s3.endpoint)
    with toxic_s3.down():
        for attempt in (
            lambda: store.put_if_absent(KEY, b""),
            lambda: store.put(KEY, b""),
            lambda: store.get(KEY),
            lambda: store.head(KEY),
            lambda: list(store.list_from("")),
            lambda: store.delete(KEY),
            lambda: store.open_input(KEY),
        ):
            with pytest.raises(StorageUnavailableError):
                attempt()
    assert create_once(store, KEY, b"ours") is Created.CREATED


def test_nobody_listening_is_unavailable(open_s3: Opener) -> None:
    with pytest.raises(StorageUnavailableError, match="the connection was refused"):
        open_s3(f"http://127.0.0.1:{free_port()}").get(KEY)


@pytest.mark.parametrize("wrong", ["AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"])
def test_wrong_keys_are_denied_and_not_shown(
    s3_server: Server, fresh_name: str, wrong: str
) -> None:
    options = servers.s3_options(s3_server.endpoint) | {wrong: "canary-value"}
    store = open_store(f"s3://{servers.BUCKET}/{fresh_name}", options)
    for attempt in (lambda: store.get(KEY), lambda: store.put_if_absent(KEY, b"")):
        with pytest.raises(AccessDeniedError) as failure:
            attempt()
        assert "canary" not in str(failure.value)


def test_a_missing_bucket_is_told_as_such(s3_server: Server) -> None:
    store = open_store("s3://no-such-bucket/t", servers.s3_options(s3_server.endpoint))
    for attempt in (
        lambda: store.put_if_absent(KEY, b""),
        lambda: list(store.list_from("")),
        lambda: store.get(KEY),
    ):
        with pytest.raises(StorageError, match="bucket or container does not exist") as failure:
            attempt()
        assert not failure.value.retryable
        assert not isinstance(failure.value, (ObjectNotFoundError, ObjectExistsError))


@pytest.mark.req("R19")
def test_a_store_that_ignores_conditions_is_found_out(
    careless_s3_server: Server, open_s3: Opener
) -> None:
    store = open_s3(careless_s3_server.endpoint)
    assert check_conditional_put(store, "r1") is StoreVerdict.IGNORES
    assert list(store.list_from("")) == []


def test_the_self_check_does_not_judge_a_store_that_is_down(
    toxic_s3: ToxicProxy, open_s3: Opener
) -> None:
    with toxic_s3.down(), pytest.raises(StorageUnavailableError):
        check_conditional_put(open_s3(toxic_s3.endpoint), "r1")


def test_test_stores_never_leave_this_machine() -> None:
    """What is not for the loopback goes to the proxy of the options, by the name of its host."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def answer() -> None:
            connection, _ = proxy.accept()
            with connection:
                asked.append(connection.recv(1_000).split(b"\r\n")[0])
                connection.sendall(b"HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        options = servers.s3_options("http://storage.invalid")
        options["proxy_url"] = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        with pytest.raises(StorageUnavailableError):
            open_store("s3://bucket/t", options).get("k")
        thread.join(5)
    assert asked == [b"GET http://storage.invalid/bucket/t/k HTTP/1.1"]
