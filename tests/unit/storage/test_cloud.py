"""The cloud store where no server is needed: options, secrets, forks."""

from __future__ import annotations

import logging
import subprocess
import sys
import traceback

import pytest

import servers
from deltasql.errors import ConfigError, DeltaSqlError, UnsafePathError, UnsafeStoreError
from deltasql.storage.resolve import open_store

# nobody listens there: a request ends at once, on this machine
NOWHERE = "http://127.0.0.1:9"
CANARY = "canary0815canary"


def canary_options() -> dict[str, str]:
    return servers.s3_options(NOWHERE) | {
        "AWS_ACCESS_KEY_ID": f"{CANARY}-id",
        "AWS_SECRET_ACCESS_KEY": f"{CANARY}-secret",
        "AWS_SESSION_TOKEN": f"{CANARY}-token",
    }


@pytest.mark.req("R96")
def test_a_secret_is_in_no_text_log_or_traceback(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    store = open_store("s3://bucket/t", canary_options())
    texts = [store.uri, repr(store)]
    for attempt in (
        lambda: store.put_if_absent("k", b""),
        lambda: store.put("k", b""),
        lambda: store.get("k"),
        lambda: store.get_range("k", 0, 1),
        lambda: store.head("k"),
        lambda: list(store.list_from("")),
        lambda: store.delete("k"),
        lambda: store.open_input("k"),
        lambda: store.put("tab\tkey", b""),
    ):
        with pytest.raises(DeltaSqlError) as failure:
            attempt()
        logging.getLogger("test").error("failed", exc_info=failure.value)
        texts += [str(failure.value), repr(failure.value), repr(failure.value.context)]
        texts += traceback.format_exception(failure.value)
        assert failure.value.__cause__ is not None
        assert failure.value.__context__ is failure.value.__cause__ or (
            failure.value.__context__ is None
        )
    texts.append(caplog.text)
    assert "failed" in caplog.text
    assert [text for text in texts if CANARY in text] == []


@pytest.mark.req("R96")
@pytest.mark.parametrize(
    ("location", "options"),
    [
        ("s3://b/t", {"conditional_put": CANARY}),
        ("s3://b/t", {"timeout": CANARY}),
        ("s3://b/t", {"allow_http": CANARY}),
        ("s3://b/t", {"checksum_algorithm": CANARY}),
        ("s3://b/t", {"access_key_id": CANARY}),
        ("az://c/t", {"account_name": "a", "account_key": f"!!{CANARY}"}),
        ("gs://b/t", {"service_account_key": f"{{{CANARY}"}),
        ("gs://b/t", {"service_account": f"/no/{CANARY}"}),
    ],
)
def test_a_malformed_value_is_a_config_error_that_does_not_show_it(location, options) -> None:
    with pytest.raises(ConfigError) as failure:
        open_store(location, options)
    assert CANARY not in str(failure.value)
    assert location in str(failure.value)


def test_azure_needs_an_account_and_abfss_names_it() -> None:
    with pytest.raises(ConfigError):
        open_store("az://container/t", servers.LOOPBACK_ONLY)
    store = open_store("abfss://c@account.dfs.core.windows.net/t", servers.LOOPBACK_ONLY)
    assert store.uri == "abfss://c@account.dfs.core.windows.net/t"


def test_conditional_writes_switched_off_are_an_unsafe_store() -> None:
    store = open_store("s3://b/t", canary_options() | {"conditional_put": "disabled"})
    with pytest.raises(UnsafeStoreError, match="switched off"):
        store.put_if_absent("k", b"")


@pytest.mark.parametrize("key", ["tab\tx", "new\nline"])
def test_keys_that_clouds_do_not_take_are_refused(key: str) -> None:
    with pytest.raises(UnsafePathError):
        open_store("s3://b/t", canary_options()).put(key, b"")


_FORK = """
import os, sys
from deltasql.errors import StorageError
from deltasql.storage.resolve import open_store
options = dict(allow_http="true", endpoint="http://127.0.0.1:9", access_key_id="kkk",
               secret_access_key="sss", proxy_url="http://127.0.0.1:9", proxy_excludes="127.0.0.1")
store = open_store("s3://b/t", options)
try:
    store.get("k")
except StorageError as error:
    print("parent:", error, flush=True)
child = os.fork()
if child == 0:
    for attempt in (lambda: store.get("k"), lambda: open_store("s3://b/t", options)):
        try:
            attempt()
        except StorageError as error:
            print("child:", error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_forked_process_is_told_instead_of_hanging() -> None:
    command = [sys.executable, "-W", "ignore", "-c", _FORK]
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60)
    parent, *children = done.stdout.splitlines()
    assert "the connection was refused" in parent
    assert len(children) == 2
    assert all("forked process" in line for line in children)


def test_local_and_memory_stores_load_no_cloud_library() -> None:
    code = (
        "import sys; from deltasql.storage.resolve import open_store; open_store('/tmp');"
        "open_store('memory:');"
        "sys.exit(any(m.startswith(('obstore', 'pyarrow')) for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
