"""What PostgreSQL's drivers say becomes the right kind of error, in one sentence."""

import psycopg
import pytest

from deltasql.database.adbc import OperationalError
from deltasql.database.postgres_errors import explained, mapped
from deltasql.errors import CatalogUnavailableError, LoginRefusedError, PermissionDeniedError

AT = 'connection to server at "db", port 5432 failed: '
REFUSALS = {
    'FATAL:  password authentication failed for user "a"': "PGPASSWORD",
    "fe_sendauth: no password supplied": "PGPASSWORD",
    'FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "a", no encryption': "sslmode",
    'FATAL:  permission denied for database "lake"': "database",
    "SSL error: certificate verify failed": "sslrootcert",
    'server certificate for "a" does not match host name "b"': "sslrootcert",
    'root certificate file "/x" does not exist': "sslrootcert",
    "server does not support SSL, but SSL was required": "TLS",
    'FATAL:  role "a" is not permitted to log in': "user",
}
OUTAGES = [
    "Connection refused",
    "server closed the connection unexpectedly",
    "SSL SYSCALL error: EOF detected",
    "SSL connection has been closed unexpectedly",
    "FATAL:  the database system is starting up",
    "FATAL:  sorry, too many clients already",
]


def adbc_error(text: str) -> OperationalError:
    return OperationalError(f"IO: [libpq] Failed to connect: {AT}{text}\n", status_code=10)


@pytest.mark.parametrize("text", list(REFUSALS))
@pytest.mark.parametrize("make", [lambda t: psycopg.OperationalError(AT + t), adbc_error])
def test_a_refused_login_is_told_by_the_server_s_words_alone(text, make):
    with pytest.raises(LoginRefusedError) as error, mapped():
        raise make(text)
    reason = text.removeprefix("FATAL:  ")
    assert error.value.message == f"The database refused the login: {reason}."
    assert REFUSALS[text] in error.value.advice


@pytest.mark.parametrize("text", OUTAGES)
@pytest.mark.parametrize("make", [lambda t: psycopg.OperationalError(AT + t), adbc_error])
def test_an_outage_is_no_refusal(text, make):
    with pytest.raises(CatalogUnavailableError) as error, mapped():
        raise make(text)
    assert not isinstance(error.value, LoginRefusedError)
    assert error.value.retryable


def test_the_hosts_of_a_list_are_looked_through():
    text = f"connection failed: {AT}Connection refused\n\tIs it running?\n"
    text += f'{AT}FATAL:  pg_hba.conf rejects connection for host "h"'
    with (
        pytest.raises(LoginRefusedError, match=r'login: pg_hba\.conf rejects .* host "h"\.'),
        mapped(),
    ):
        raise psycopg.OperationalError(text)


def test_a_missing_right_is_told_in_any_language():
    with pytest.raises(PermissionDeniedError) as error, mapped():
        raise psycopg.errors.InsufficientPrivilege("keine Berechtigung für Tabelle dl_tables")
    assert error.value.context["relation"] == "dl_tables"
    told = explained(error.value, "etl", "INSERT, DELETE")
    assert told.message == ("Role 'etl' may not do this: keine Berechtigung für Tabelle dl_tables.")
    assert told.advice.startswith("The role lacks INSERT, DELETE on dl_tables.")
