"""A PostgreSQL catalog whose logins have the roles of `deploy/postgres/roles.sql`."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psycopg

import deltasql
from deltasql.api.connect import initialize, open_database
from deltasql.uri import parse_uri
from pg_server import PostgresServer

SCRIPT = Path(__file__).parents[2] / "deploy/postgres/roles.sql"
ROLES = ("reader", "writer", "worker", "operator")
SCHEMA = "lake catalog"  # a name that must be quoted


@dataclass(frozen=True)
class RoleDatabase:
    """One database; `prefix` keeps its roles apart from those of others on the server."""

    server: PostgresServer
    name: str
    prefix: str

    def uri(self, role: str) -> str:
        """The catalog's URI for the login that has a role."""
        where = f"host={self.server.host}&port={self.server.port}&user={self.prefix}_{role}_login"
        return f"deltasql://postgres/{self.name}/{SCHEMA.replace(' ', '%20')}?{where}"

    def connect(self, role: str, **options) -> deltasql.Catalog:
        """Open the catalog with one of the roles."""
        return deltasql.connect(self.uri(role), **options)

    def admin(self) -> psycopg.Connection:
        """Connect as the superuser, in the catalog's schema."""
        return psycopg.connect(
            self.server.dsn(self.name),
            autocommit=True,
            options="-c search_path=" + f'"{SCHEMA}"'.replace(" ", "\\ "),
        )

    def run_script(self) -> str:
        """Run the script as its head says and return what it printed."""
        given = [f"-vschema={SCHEMA}", f"-vprefix={self.prefix}", "-f", str(SCRIPT)]
        psql = self.server.build.bindir / "psql"
        env = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
        done = subprocess.run(
            [psql, "-X", "-q", *given, self.server.dsn(self.name)],
            capture_output=True,
            text=True,
            check=False,
            env=env,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout

    def add_login(self, name: str, role: str) -> None:
        """Make a login that has a role."""
        with self.admin() as connection:
            connection.execute(f'create role "{name}" login in role "{self.prefix}_{role}"')


def prepare(server: PostgresServer) -> RoleDatabase:
    """Return a database with roles and logins, but without a catalog."""
    name = server.create_database_name()
    database = RoleDatabase(server, name, name)
    with database.admin() as connection:
        # as on servers that are locked down: every right comes from the script
        connection.execute(f'revoke all on database "{name}" from public')
    assert "deltasql db init" in database.run_script()
    for role in (*ROLES, "owner"):
        database.add_login(f"{name}_{role}_login", role)
    with database.admin() as connection:
        # what the login makes belongs to the role
        connection.execute(f'alter role "{name}_owner_login" set role = "{name}_owner"')
    return database


def make_lake(server: PostgresServer) -> RoleDatabase:
    """Return a database whose catalog the owner has made, with the rights granted after it."""
    database = prepare(server)
    made = open_database(parse_uri(database.uri("owner")))
    initialize(made)
    made.close()
    assert database.run_script() == ""
    return database
