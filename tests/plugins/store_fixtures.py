"""Fixtures: object-store servers, one of each per session, and fresh stores on them.

A server that cannot be had skips its tests with the reason; where the environment variable
DELTASQL_REQUIRE_SERVERS names it ("s3 azure gcs toxiproxy careless_s3"), its absence is a failure.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import servers
from deltasql.storage.port import ObjectStore
from deltasql.storage.resolve import open_store
from fault_proxy import FaultProxy
from server_process import Server, Unavailable
from toxics import ToxicProxy, proxied

STORE_KINDS = ("local", "memory", "s3", "azure", "gcs")
_numbers = itertools.count()


def _running(name: str, begin: Callable[[], Server]) -> Iterator[Server]:
    try:
        server = begin()
    except Unavailable as reason:
        if name in re.split(r"[\s,]+", os.environ.get("DELTASQL_REQUIRE_SERVERS", "")):
            pytest.fail(f"the server {name} is required: {reason}")
        pytest.skip(f"no {name} server: {reason}")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Server]:
    yield from _running("s3", servers.start_s3)


@pytest.fixture(scope="session")
def careless_s3_server() -> Iterator[Server]:
    yield from _running("careless_s3", servers.start_careless_s3)


@pytest.fixture(scope="session")
def azure_server() -> Iterator[Server]:
    yield from _running("azure", servers.start_azure)


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[Server]:
    yield from _running("gcs", servers.start_gcs)


@pytest.fixture(scope="session")
def toxiproxy() -> Iterator[Server]:
    yield from _running("toxiproxy", servers.start_toxiproxy)


@pytest.fixture
def fault_proxy(s3_server: Server) -> Iterator[FaultProxy]:
    """A proxy before the S3 server that spoils single requests."""
    proxy = FaultProxy(s3_server.port)
    yield proxy
    proxy.close()


@pytest.fixture
def toxic_s3(toxiproxy: Server, s3_server: Server) -> Iterator[ToxicProxy]:
    """A toxiproxy before the S3 server that spoils connections."""
    with proxied(toxiproxy.port, s3_server.port) as proxy:
        yield proxy


@pytest.fixture
def fresh_name() -> str:
    """A table's place that no other test uses."""
    return f"t{next(_numbers)}"


@pytest.fixture(params=STORE_KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path, fresh_name: str) -> Iterator[ObjectStore]:
    """A fresh, empty store of every kind in turn."""
    kind = request.param
    location, options = _place(kind, request, tmp_path, fresh_name)
    opened = open_store(location, options)
    yield opened
    opened.close()


def _place(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, name: str
) -> tuple[str, dict[str, str]]:
    if kind == "local":
        return str(tmp_path / "table"), {}
    if kind == "memory":
        return f"memory://tests/{name}", {}
    endpoint = request.getfixturevalue(f"{kind}_server").endpoint
    if kind == "s3":
        return f"s3://{servers.BUCKET}/{name}", servers.s3_options(endpoint)
    if kind == "azure":
        return f"az://{servers.BUCKET}/{name}", servers.azure_options(endpoint)
    return f"gs://{servers.BUCKET}/{name}", servers.gcs_options(endpoint)
