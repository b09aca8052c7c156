"""Who commits: the name in the history, and where the commit came from."""

from __future__ import annotations

import getpass
import socket
from dataclasses import dataclass

from deltasql.catalog.database import Database


@dataclass(frozen=True, slots=True)
class CommitUser:
    """What the history says of a commit: a name, and the client that it came from."""

    name: str | None = None
    client: str | None = None


def commit_user(database: Database, name: str | None, client: str | None) -> CommitUser:
    """Return who commits.

    A name that is given counts. Else it is the database login, where there is one: it was
    checked, the operating system's user was not. What the name does not say stands in the client.
    """
    login, system = database.login(), _system_user()
    if login is None:
        return CommitUser(name or system, client)
    user = name or login
    place = f"{system or 'unknown'}@{socket.gethostname()}"
    return CommitUser(user, client or (place if user == login else f"{place}, login {login}"))


def _system_user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None
