"""Certificates of an authority of our own, and a PostgreSQL that takes only encrypted logins."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psycopg

import pg_server
from pg_server import PostgresServer, UnavailableError

PASSWORD = "c4n4ry S3cr3t/w0rd'\\"  # nothing that a URI or a file could take as it is
LOGIN, CERTIFIED = "etl", "certified"
RULES = f"""
local   all all                   trust
hostssl all postgres   127.0.0.1/32 trust
hostssl all {CERTIFIED} 127.0.0.1/32 cert
hostssl all all        127.0.0.1/32 scram-sha-256
"""


@dataclass(frozen=True)
class TlsServer:
    """The server, and the folder with its certificates."""

    server: PostgresServer
    folder: Path

    def uri(self, user: str, **parameters: str) -> str:
        """The URI of the catalog; the host is named as its certificate names it."""
        found = {"host": "localhost", "hostaddr": "127.0.0.1", "port": self.server.port}
        found |= {"user": user, **parameters}
        query = "&".join(f"{key}={value}" for key, value in found.items())
        return f"deltasql://postgres/postgres/lake?{query}"


def make_authority(folder: Path, name: str) -> None:
    """Make `name`.pem, which signs, and its key."""
    _openssl(
        f"req -x509 {_NEW_KEY} -keyout {name}.key -out {name}.pem -days 2 -subj /CN={name}", folder
    )


def issue(folder: Path, authority: str, name: str, common_name: str) -> None:
    """Make `name`.pem and its key, signed by the authority, for a host or a user."""
    _openssl(f"req {_NEW_KEY} -keyout {name}.key -out {name}.csr -subj /CN={common_name}", folder)
    (folder / f"{name}.ext").write_text(f"subjectAltName=DNS:{common_name}\n")
    _openssl(
        f"x509 -req -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial"
        f" -days 2 -extfile {name}.ext -out {name}.pem",
        folder,
    )
    (folder / f"{name}.key").chmod(0o600)


def start_tls_server(folder: Path) -> TlsServer:
    """Start a server with `ssl=on` that admits nobody without TLS."""
    folder.chmod(0o755)
    make_authority(folder, "ca")
    make_authority(folder, "stranger")
    issue(folder, "ca", "server", "localhost")
    issue(folder, "ca", "client", CERTIFIED)
    (folder / "hba.conf").write_text(RULES)
    if os.geteuid() == 0:
        shutil.chown(folder / "server.key", "nobody", "nogroup")
    settings = (
        "ssl=on",
        f"ssl_cert_file={folder}/server.pem",
        f"ssl_key_file={folder}/server.key",
        f"ssl_ca_file={folder}/ca.pem",
        f"hba_file={folder}/hba.conf",
    )
    server = _first_that_starts(settings)
    made = TlsServer(server, folder)
    with psycopg.connect(f"{server.dsn()}?sslmode=require", autocommit=True) as connection:
        for name in (LOGIN, CERTIFIED):
            connection.execute(f"create role {name} login")
            connection.execute(f"grant create on database postgres to {name}")
        word = psycopg.sql.Literal(PASSWORD).as_string(connection)
        connection.execute(f"alter role {LOGIN} password {word}")
    return made


def _first_that_starts(settings: tuple[str, ...]) -> PostgresServer:
    reason = "no PostgreSQL was found"
    for build in pg_server.find_builds():  # not every build has TLS
        try:
            return pg_server.start_server(build, (*pg_server.FAST, *settings))
        except UnavailableError as error:
            reason = str(error)
    raise UnavailableError(reason)


_NEW_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"


def _openssl(words: str, folder: Path) -> None:
    program = shutil.which("openssl")
    if program is None:
        raise UnavailableError("there is no openssl to make certificates with")
    done = subprocess.run(
        [program, *words.split()], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise UnavailableError(f"openssl failed: {done.stderr.strip()[-200:]}")
