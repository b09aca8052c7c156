"""Whatever goes wrong inside of a checkpoint, told as one error that names it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pyarrow as pa

from deltasql.errors import MalformedActionError, ObjectNotFoundError, ProtocolError
from deltasql.storage.port import ObjectStore

_HINT = (
    "The checkpoint is damaged; restore the file, or begin from an older checkpoint or from the "
    "commits where the log still has them."
)
_WRONG = (
    pa.ArrowException,
    msgspec.MsgspecError,
    OSError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    MemoryError,
    RecursionError,
)


def damage(store: ObjectStore, key: str, version: int, reason: str) -> MalformedActionError:
    """Return the error for a checkpoint that cannot be used."""
    return MalformedActionError(
        f"The checkpoint of version {version} cannot be read from {key} at {store.uri}: {reason}.",
        hint=_HINT,
        version=version,
        key=key,
    )


@contextmanager
def told_as_damage(store: ObjectStore, key: str, version: int) -> Iterator[None]:
    """Tell what is wrong with a file of a checkpoint as MalformedActionError.

    A store that cannot be reached, or refuses, keeps its own error: the file may be right.
    """
    try:
        yield
    except ObjectNotFoundError as error:
        raise damage(store, key, version, "there is no such file") from error
    except ProtocolError as error:
        if error.context.get("key") == key:
            raise
        raise damage(store, key, version, error.message.rstrip(".")) from error
    except _WRONG as error:
        raise damage(store, key, version, _reason(error)) from error


def _reason(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
