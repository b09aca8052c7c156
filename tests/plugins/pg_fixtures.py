"""Fixtures with real PostgreSQL servers, started once per test process."""

import functools
import os
from collections.abc import Callable, Iterator

import pytest

import pg_server
from pg_server import Build, PostgresServer, UnavailableError


@functools.cache
def builds() -> tuple[Build, ...]:
    return tuple(pg_server.find_builds())


def _serve(choose: Callable[[], PostgresServer]) -> Iterator[PostgresServer]:
    """Yield a server, or skip with the reason; fail where the run demands PostgreSQL."""
    pg_server.sweep_orphans()
    try:
        server = choose()
    except UnavailableError as error:
        if "postgres" in os.environ.get("DELTASQL_REQUIRE_SERVERS", "").split():
            pytest.fail(f"PostgreSQL is required here: {error}")
        pytest.skip(f"no PostgreSQL: {error}")
    try:
        yield server
    finally:
        server.remove()


def _first(candidates: tuple[Build, ...], *settings: str, icu: bool = False) -> PostgresServer:
    """Return a server of the first build that starts."""
    reason = "no installation found"
    for build in candidates:
        try:
            return pg_server.start_server(build, settings, icu=icu)
        except UnavailableError as error:
            reason = f"{build.major} in {build.bindir}: {error}"
    raise UnavailableError(reason)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The preferred PostgreSQL of this machine, fast: nothing survives a power cut."""
    yield from _serve(lambda: _first(builds(), *pg_server.FAST))


@pytest.fixture(scope="session")
def other_postgres_server() -> Iterator[PostgresServer]:
    """Another major version than `postgres_server`."""
    others = tuple(build for build in builds() if build.major != builds()[0].major)
    yield from _serve(lambda: _first(others, *pg_server.FAST))


@pytest.fixture(scope="session")
def icu_postgres_server() -> Iterator[PostgresServer]:
    """A server whose databases sort text by ICU's en-US, not bytewise."""
    yield from _serve(lambda: _first(builds(), *pg_server.FAST, icu=True))


@pytest.fixture(scope="session")
def durable_postgres_server() -> Iterator[PostgresServer]:
    """A server with PostgreSQL's own durability: an acknowledged commit survives a crash."""
    yield from _serve(lambda: _first(builds()))


@pytest.fixture(params=["sqlite", "postgres"])
def catalog_uri(request: pytest.FixtureRequest, tmp_path) -> str:
    """The URI of a fresh, empty database of each kind."""
    if request.param == "sqlite":
        return f"deltasql://sqlite/{tmp_path}/catalog.db"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.uri(server.create_database_name())


@pytest.fixture
def second_uri(catalog_uri, tmp_path, request):
    """Another, empty database of the same kind."""
    if "postgres" in catalog_uri.split("?")[0].split("/")[2]:
        server = request.getfixturevalue("postgres_server")
        return server.uri(server.create_database_name())
    return f"deltasql://sqlite/{tmp_path}/second.db"
