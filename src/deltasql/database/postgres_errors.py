"""What PostgreSQL's drivers raise, as our errors, and poolers that share server sessions.

A login that fails has no SQLSTATE in libpq; there the reason is read out of the text, and where the
text is not understood, the database counts as not answering.

Does a connection keep its server session, or does a pooler share it between its clients? A pooler
in transaction mode (PgBouncer, RDS Proxy and others) gives each transaction any server session.
Settings such as the search path then belong to whoever ran before: a commit could go to another
catalog of the same database. Such a pool is refused.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from deltasql.database.adbc import DataError, Error, OperationalError
from deltasql.database.port import UniqueViolationError
from deltasql.errors import (
    BadArgumentError,
    CatalogError,
    CatalogUnavailableError,
    DeltaSqlError,
    LoginRefusedError,
    PermissionDeniedError,
    PoolModeError,
)

_NO_RIGHT = "42501"

# a standby, or a primary that has become one; a server that ends, starts or has no room
_UNAVAILABLE = ("25006", "08", "40", "53", "55P03", "57", "58")
_TOO_LARGE = "54"
_NOT_UNIQUE = "23505"
_RELATION = re.compile(r"\bdl_\w+")
_POLICY = re.compile(r"\bonly_operators_\w+")
_WANTS_WORD = "Give the password by PGPASSWORD, ~/.pgpass or ?password_file=…"
_WANTS_CA = (
    "Name the authority that signed the server's certificate (?sslmode=verify-full&"
    "sslrootcert=/path/ca.pem), and the server by the name that the certificate holds."
)
_WANTS_OTHER = "The server admits nobody from here this way: check user, database and ?sslmode=…"
_WANTS_DATABASE = "Create the database with `createdb`, or correct its name in the URI."
_WANTS_ROLE = "Create the role with `createuser`, or correct the user in the URI or PGUSER."
_WANTS_PLAIN = "Switch TLS on in the server; ?sslmode=prefer would send everything readable."
_REFUSALS = (
    (re.compile(r"no password supplied|password authentication failed"), _WANTS_WORD),
    (re.compile(r"certificate verify failed|root certificate|server certificate"), _WANTS_CA),
    (re.compile(r"database \"[^\"]*\" does not exist"), _WANTS_DATABASE),
    (re.compile(r"role \"[^\"]*\" does not exist"), _WANTS_ROLE),
    (re.compile(r"does not support SSL, but SSL was required"), _WANTS_PLAIN),
    (
        re.compile(
            r"pg_hba\.conf|authentication failed|not permitted to log in"
            r"|permission denied for database|certificate|sslv3 alert|tlsv1[\w.]* alert"
        ),
        _WANTS_OTHER,
    ),
)
_BUSY = (
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    psycopg.errors.LockNotAvailable,
)
_PREAMBLE = re.compile(r"^.*?(?: failed: |\b[A-Z]+:  )(?=\S)")

# One look can miss by chance that two clients share a session; so many in a row do not.
_LOOKS = 8
_PATIENCE_S = 5.0


@contextmanager
def mapped() -> Iterator[None]:
    """Raise our error for whatever a driver raises inside."""
    handled = sys.exception()
    try:
        yield
    except UnicodeEncodeError as error:
        raise BadArgumentError(f"PostgreSQL cannot hold a value: {_first_line(error)}.") from error
    except (psycopg.Error, Error) as error:
        interrupt = hidden_interrupt(error, handled)
        if interrupt is not None:
            raise interrupt from None
        raise _ours(error) from error


def hidden_interrupt(
    error: BaseException, handled: BaseException | None
) -> KeyboardInterrupt | None:
    """Return the Ctrl-C that an error of psycopg has taken the place of.

    After an interrupt psycopg cancels the statement and waits once more. What the server says then,
    or that a pipeline cannot be left, is raised instead. `handled` is the exception that the caller
    was handling before: an interrupt of long ago.
    """
    context = error.__context__
    is_new = isinstance(context, KeyboardInterrupt) and context is not handled
    return context if is_new else None  # type: ignore[return-value]


def _ours(error: psycopg.Error | Error) -> DeltaSqlError:
    text, state = _first_line(error), error.sqlstate or ""
    if isinstance(error, psycopg.errors.UniqueViolation) or state == _NOT_UNIQUE:
        return UniqueViolationError(f"The catalog refused a row: {text}.")
    is_unfit = isinstance(error, psycopg.errors.DataError | DataError)
    if is_unfit or state.startswith(_TOO_LARGE):
        return BadArgumentError(f"PostgreSQL cannot hold a value: {text}.")
    if isinstance(error, _BUSY):
        return CatalogUnavailableError(f"The catalog is busy: {text}.")
    if state == _NO_RIGHT:
        if isinstance(error, psycopg.Error):
            text = error.diag.message_primary or text
        return PermissionDeniedError(
            f"The database role may not do this: {_after_preamble(text)}.", **_place(text)
        )
    is_operational = isinstance(error, psycopg.OperationalError | OperationalError)
    if state.startswith(_UNAVAILABLE) or is_operational:
        return _refusal(str(error)) or CatalogUnavailableError(
            f"The catalog database does not answer: {text}."
        )
    return CatalogError(f"The catalog refused a statement: {text}.")


def _refusal(text: str) -> LoginRefusedError | None:
    for line in text.splitlines():
        for sign, advice in _REFUSALS:
            if sign.search(line):
                reason = _after_preamble(line.strip().rstrip("."))
                return LoginRefusedError(f"The database refused the login: {reason}.", hint=advice)
    return None


def explained(
    error: PermissionDeniedError, role: str, lacking: str | None
) -> PermissionDeniedError:
    """Return the error with the role's name and the rights that it lacks."""
    reason = error.message.partition(": ")[2] or error.message
    relation = error.context.get("relation")
    if error.context.get("policy"):
        advice = "Dropping and detaching tables is the work of the operator's role."
    elif relation and lacking:
        advice = f"The role lacks {lacking} on {relation}."
    else:
        advice = "To create and migrate a catalog is the work of its schema's owner."
    return PermissionDeniedError(
        f"Role {role!r} may not do this: {reason}",
        hint=f"{advice} {PermissionDeniedError.hint}",
        **{**error.context, "role": role, "lacking": lacking},
    )


def _place(text: str) -> dict[str, str | None]:
    relation, policy = _RELATION.search(text), _POLICY.search(text)
    return {
        "relation": relation[0] if relation else None,
        "policy": policy[0] if policy else None,
    }


def _after_preamble(line: str) -> str:
    """Return what the server said, without the driver's words about the connection."""
    while match := _PREAMBLE.match(line):
        line = line[match.end() :]
    return line


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".") if text else "no reason given"


def require_own_session(
    connection: psycopg.Connection[Any], connect: Callable[[], psycopg.Connection[Any]]
) -> int:
    """Refuse a pool that shares server sessions between its clients; return the server process.

    Two clients take turns. In session mode each has one server process, its own; in transaction
    mode they meet on one process or change it. A second client that gets no process at all, while
    the first one does nothing, has met a full pool that keeps its sessions.

    Raises:
        PoolModeError: the pool shares server sessions.
    """
    ours, theirs = set(), set()
    other = _open_within(connect, _PATIENCE_S)
    try:
        for _ in range(_LOOKS):
            ours.add(server_process(connection))
            if other is not None:
                theirs.add(server_process(other))
    finally:
        if other is not None:
            other.close()
    if len(ours) > 1 or len(theirs) > 1 or ours & theirs:
        info = connection.info
        raise PoolModeError(
            f"The server at {info.host}:{info.port} is a connection pool in transaction mode: it "
            "does not keep the settings of a connection.",
            host=info.host,
            port=info.port,
        )
    return ours.pop()


def _open_within(
    connect: Callable[[], psycopg.Connection[Any]], seconds: float
) -> psycopg.Connection[Any] | None:
    """Return another client that a server process answers; None where it waits too long."""
    answered: Future[psycopg.Connection[Any]] = Future()

    def run() -> None:
        other = None
        try:
            other = connect()
            server_process(other)
            answered.set_result(other)
        except BaseException as error:  # noqa: BLE001 (raised again where it is waited for)
            if other is not None:
                other.close()
            with suppress(InvalidStateError):  # nobody waits any more
                answered.set_exception(error)

    threading.Thread(target=run, name="deltasql-pool-check", daemon=True).start()
    try:
        return answered.result(timeout=seconds)
    except FutureTimeoutError:
        if answered.cancel():
            return None
        return answered.result()


def server_process(connection: psycopg.Connection[Any]) -> int:
    """Return the number of the server process that answers."""
    return int(connection.execute("select pg_backend_pid()", prepare=False).fetchall()[0][0])
