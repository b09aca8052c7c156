"""Catalog URIs as typed values. A password is a `Secret`: no repr, str or error shows it.

No message here quotes the text it was given: a URI that cannot be parsed may hold a password
in a place where nobody expects one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

from deltasql.errors import BadUriError, ConfigError

DEFAULT_SCHEMA: Final = "public"
_IDENTIFIER_BYTES: Final = 63  # PostgreSQL cuts longer names silently: two schemas would be one
_SECRET_KEYS: Final = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)
_LIBPQ_KEYS: Final = _SECRET_KEYS | frozenset(
    re.findall(
        r"\w+",
        """
        application_name channel_binding client_encoding connect_timeout dbname
        fallback_application_name gssdelegation gssencmode gsslib host hostaddr keepalives
        keepalives_count keepalives_idle keepalives_interval krbsrvname load_balance_hosts
        max_protocol_version min_protocol_version options passfile port require_auth requirepeer
        service ssl_max_protocol_version ssl_min_protocol_version sslcert sslcertmode
        sslcompression sslcrl sslcrldir sslkey sslmode sslnegotiation sslrootcert sslsni
        target_session_attrs tcp_user_timeout user
        """,
    )
)
_OWN_KEYS: Final = frozenset({"password_file", "schema", "table"})
_SEARCH_PATH: Final = re.compile(r"(?:-c\s*|--)search_path\s*=\s*\"?([^\s,\"]+)")
_NAMEABLE: Final = re.compile(r"[a-z_]{1,32}")


class Secret:
    """A text that never shows itself; only `reveal` gives it away."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the text itself."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))


@dataclass(frozen=True, slots=True)
class SqliteUri:
    """A catalog in a SQLite file, and perhaps one of its tables."""

    path: str
    table: str | None = None

    def __str__(self) -> str:
        return f"deltasql://sqlite/{quote(self.path)}{_query(table=self.table)}"


@dataclass(frozen=True, slots=True)
class PostgresUri:
    """A catalog in a PostgreSQL schema, and perhaps one of its tables.

    `parameters` are libpq's keywords; what is not given comes from `PG*`, the service file or
    `~/.pgpass`, as in every program that uses libpq.
    """

    parameters: tuple[tuple[str, str | Secret], ...] = ()
    schema: str = DEFAULT_SCHEMA
    table: str | None = None
    password_file: str | None = None

    @property
    def database(self) -> str | None:
        """The database's name, or None when libpq decides."""
        return self.parameter("dbname")

    @property
    def host(self) -> str | None:
        """The host, or None when libpq decides."""
        return self.parameter("host")

    @property
    def port(self) -> str | None:
        """The port as text (libpq takes a list), or None when libpq decides."""
        return self.parameter("port")

    @property
    def user(self) -> str | None:
        """The user, or None when libpq decides."""
        return self.parameter("user")

    @property
    def password(self) -> Secret | None:
        """The password that the URI holds, if it holds one."""
        value = dict(self.parameters).get("password")
        return value if isinstance(value, Secret) else None

    def parameter(self, key: str) -> str | None:
        """Return a parameter that is no secret."""
        value = dict(self.parameters).get(key)
        return value if isinstance(value, str) else None

    def conninfo(self) -> str:
        """Return libpq's connection string, password included: hand it to a driver, never print it.

        Raises:
            ConfigError: `password_file` cannot be read.
        """
        parts = dict(self.parameters)
        if self.password_file is not None:
            parts["password"] = _read_password(self.password_file)
        return " ".join(f"{key}={_quoted(_plain(value))}" for key, value in sorted(parts.items()))

    def __str__(self) -> str:
        shown = {k: v for k, v in self.parameters if isinstance(v, str) and k != "dbname"}
        shown |= {"password_file": self.password_file} if self.password_file else {}
        if self.database is None:
            return f"deltasql://postgres{_query(schema=self.schema, table=self.table, **shown)}"
        names = [self.database, self.schema] + ([self.table] if self.table else [])
        path = "/".join(quote(name, safe="") for name in names)
        return f"deltasql://postgres/{path}{_query(**shown)}"


CatalogUri = SqliteUri | PostgresUri


def parse_uri(text: str) -> CatalogUri:
    """Return what a catalog URI names.

    Raises:
        BadUriError: it is no URI of a catalog; the message names the part, never the text.
    """
    parts = _split(text)
    query = _parse_query(parts.query)
    if parts.scheme in {"postgresql", "postgres"}:
        return _from_dsn(parts, query)
    if parts.scheme != "deltasql":
        raise BadUriError("The URI does not begin with deltasql:// or postgresql://.")
    if parts.netloc == "sqlite":
        return _sqlite(parts.path, query)
    if parts.netloc == "postgres":
        return _postgres(parts.path, query)
    raise BadUriError(
        "After deltasql:// stands the kind of database: sqlite or postgres.",
        hint="Host, port and user go into the query: deltasql://postgres/db/schema?host=…&user=…",
    )


def _split(text: str) -> SplitResult:
    if any(ord(letter) <= ord(" ") or letter == "\x7f" for letter in text):
        raise BadUriError("The URI holds a space or a control character; percent-encode it.")
    try:
        parts = urlsplit(text)
    except ValueError:
        raise BadUriError("The URI's host part is malformed.") from None
    if parts.fragment or text.endswith("#"):
        raise BadUriError("The URI holds a '#'; write it as %23.")
    stray = "@" not in parts.netloc and ":" in parts.netloc and "@" in parts.query
    if "@" in parts.path or stray:
        # the tail of a password with an unescaped '/' or '?' would pass as a database's name
        raise BadUriError("The URI holds an '@' after the host; write it as %40.")
    return parts


def _parse_query(query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in filter(None, query.split("&")):
        raw_key, equals, raw_value = item.partition("=")
        key = raw_key.lower()
        if key not in _LIBPQ_KEYS | _OWN_KEYS:
            name = f"The URI's parameter {key}" if _NAMEABLE.fullmatch(key) else "A URI parameter"
            raise BadUriError(f"{name} is unknown.", hint="See the URI reference for the names.")
        if not equals or not raw_value:
            raise BadUriError(f"The URI's parameter {key} has no value.")
        if key in found:
            raise BadUriError(f"The URI gives the parameter {key} twice.")
        found[key] = _decode(raw_value, key)
    return found


def _decode(raw: str, what: str) -> str:
    try:
        value = unquote(raw, errors="strict")
    except UnicodeDecodeError:
        raise BadUriError(f"The URI's {what} is not percent-encoded UTF-8.") from None
    if "\x00" in value:
        raise BadUriError(f"The URI's {what} holds a NUL character.")
    return value


def _sqlite(path: str, query: dict[str, str]) -> SqliteUri:
    foreign = sorted(query.keys() - {"table"})
    if foreign:
        raise BadUriError(f"A SQLite URI takes no parameter {foreign[0]}.")
    file = _decode(path.removeprefix("/"), "path")
    if not file or file.endswith("/"):
        raise BadUriError(
            "The URI names no database file.",
            hint="Write deltasql://sqlite/relative.db or deltasql://sqlite//absolute/path.db",
        )
    if file.startswith(":"):
        raise BadUriError("A catalog needs a database file: an in-memory database is lost.")
    return SqliteUri(file, query.get("table"))


def _postgres(path: str, query: dict[str, str]) -> PostgresUri:
    names = [_decode(name, "path") for name in path.strip("/").split("/")] if path != "/" else []
    names = [] if names == [""] else names
    if len(names) > 3 or "" in names:  # noqa: PLR2004 (database, schema, table)
        raise BadUriError("A PostgreSQL URI names a database, a schema and at most one table.")
    for key, name in zip(("dbname", "schema", "table"), names, strict=False):
        if key in query:
            raise BadUriError(f"The URI gives the {key} in its path and in its query.")
        query[key] = name
    return _build(query)


def _from_dsn(parts: SplitResult, query: dict[str, str]) -> PostgresUri:
    userinfo, _, hosts = parts.netloc.rpartition("@")
    user, colon, password = userinfo.partition(":")
    named = {"user": _decode(user, "user"), "dbname": _decode(parts.path[1:], "database")}
    if colon:
        named["password"] = _decode(password, "password")
    named |= _hosts(hosts)
    for key, value in named.items():
        if value:
            query.setdefault(key, value)
    return _build(query)


def _hosts(hosts: str) -> dict[str, str]:
    """Libpq takes host:port pairs separated by commas, IPv6 addresses in brackets."""
    pairs = [re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::(\d*))?", part) for part in hosts.split(",")]
    if not all(pairs):
        raise BadUriError("The URI's port is not a number, or its host holds a stray colon.")
    names = [_decode(pair[1].strip("[]"), "host") for pair in pairs if pair]
    ports = [pair[2] or "" for pair in pairs if pair]
    return {
        "host": ",".join(names) if any(names) else "",
        "port": ",".join(ports) if any(ports) else "",
    }


def _build(query: dict[str, str]) -> PostgresUri:
    table = query.pop("table", None)
    password_file = query.pop("password_file", None)
    schema = query.pop("schema", None) or _schema_of(query.get("options", ""))
    if len(schema.encode()) > _IDENTIFIER_BYTES:
        raise BadUriError("The URI's schema is longer than PostgreSQL's 63 bytes.")
    port = query.get("port", "")
    if not re.fullmatch(r"[\d,]*", port):
        raise BadUriError("The URI's port is not a number.")
    if password_file and "password" in query:
        raise BadUriError("The URI gives a password and a password_file.")
    parameters = tuple(
        (key, Secret(value) if key in _SECRET_KEYS else value)
        for key, value in sorted(query.items())
    )
    return PostgresUri(parameters, schema, table, password_file)


def _schema_of(options: str) -> str:
    match = _SEARCH_PATH.search(options)
    return match[1] if match else DEFAULT_SCHEMA


def _read_password(file: str) -> Secret:
    try:
        return Secret(Path(file).read_text(encoding="utf-8").rstrip("\r\n"))
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"The password_file {file} cannot be read.", file=file) from None


def _plain(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _query(**values: str | None) -> str:
    given = {key: value for key, value in sorted(values.items()) if value is not None}
    return "?" + urlencode(given, quote_via=quote) if given else ""
