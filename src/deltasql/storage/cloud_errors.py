"""Every error of obstore, translated in one place.

Its texts hold addresses, headers and server answers, so none is passed on: what we need is read
out of them (a status, a kind of failure) and the sentence is ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from obstore import exceptions as vendor

from deltasql.errors import (
    AccessDeniedError,
    ConfigError,
    DeltaSqlError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
    UnsafePathError,
    UnsafeStoreError,
)

# The most general stands last: the first match in this order wins.
KINDS: Mapping[type[BaseException], type[DeltaSqlError]] = {
    vendor.AlreadyExistsError: ObjectExistsError,
    vendor.PreconditionError: ObjectExistsError,  # our only condition is absence
    vendor.NotFoundError: ObjectNotFoundError,
    FileNotFoundError: ObjectNotFoundError,
    vendor.PermissionDeniedError: AccessDeniedError,
    vendor.UnauthenticatedError: AccessDeniedError,
    vendor.InvalidPathError: UnsafePathError,
    vendor.UnknownConfigurationKeyError: ConfigError,
    vendor.NotSupportedError: StorageError,
    NotImplementedError: StorageError,
    vendor.NotModifiedError: StorageError,
    vendor.JoinError: StorageUnavailableError,
    vendor.GenericError: StorageUnavailableError,
    vendor.BaseError: StorageUnavailableError,
    OSError: StorageUnavailableError,
    ValueError: UnsafePathError,  # the values that reach obstore unchecked are keys
}

_STATUS = re.compile(r"status(?: code)?: (\d{3})")
_PLAIN_HTTP = re.compile(r"URL scheme is not allowed|source: BadScheme")
_REASONS = (
    (re.compile(r"kind: Timeout|TimedOut|operation timed out"), "no answer in time"),
    (_PLAIN_HTTP, "plain http needs the option allow_http=true"),
    (re.compile(r"dns error"), "the host name is unknown"),
    (re.compile(r"ConnectionRefused|Connection refused"), "the connection was refused"),
    (re.compile(r"kind: Connect|ConnectError|tcp connect error"), "no connection"),
    (
        re.compile(r"IncompleteMessage|ConnectionReset|BrokenPipe|kind: Request|error sending"),
        "connection lost",
    ),
    (re.compile(r"kind: Decode|kind: Body|UnexpectedEof"), "the answer was cut short"),
)
# the cloud's default chain: asked when the options hold no credentials; no key can look like this
_ASKED_FOR_CREDENTIALS = re.compile(
    r"://169\.254\.169\.254/|://metadata\.google\.internal/|Error performing token request"
)
# the server's own word counts more than the status it comes with
_BAD_IDENTITY = re.compile(
    r"<Code>(ExpiredToken|RequestExpired|TokenRefreshRequired|InvalidToken|InvalidAccessKeyId|"
    r"\w*UserNotFound)<"
)
_EXPIRED = re.compile(
    r"<Code>(ExpiredToken|RequestExpired|TokenRefreshRequired|ExpiredAuthenticationToken)<"
    r"|not valid in the specified time frame|[Tt]oken is expired"
)
# said of a key, a signature or a token that is not the account's, by Azure, by Google and by S3
_WRONG_IDENTITY = re.compile(
    r"Server failed to authenticate the request"
    r"|<Code>(AuthenticationFailed|AuthenticationRequired|InvalidAuthenticationInfo"
    r"|InvalidSecurity|SignatureDoesNotMatch|InvalidAccessKeyId|InvalidToken)<"
)
# Google's answer to a service account or a login that it does not know, or no longer
_NO_GRANT = re.compile(r'"error": ?"invalid_(?:grant|client)"')
# S3 and Azure delete many keys by one request, which is answered with 200 and a word for each key
_NO_RIGHT = re.compile(
    r"<Code>(AccessDenied|AuthorizationPermissionMismatch)<|^ +code: \"(?:AccessDenied|403)\",$",
    re.MULTILINE,
)
_NO_BUCKET = re.compile(r"<Code>(NoSuchBucket|ContainerNotFound)<")
_PLAIN: Mapping[type[DeltaSqlError], str] = {
    ObjectNotFoundError: "there is no such object",
    ObjectExistsError: "the store says that it exists",
    UnsafePathError: "the key has characters that the store does not take",
    UnsafeStoreError: "conditional writes are switched off",
}
_POLICIES = "the guide on least rights has a policy for readers, writers, workers and operators."
_CHANGES = frozenset({"create", "write"})
_UNAUTHENTICATED = 401
_REFUSED = frozenset({_UNAUTHENTICATED, 403})
_MISSING = 404
RANGE_NOT_SATISFIABLE = 416


def is_vendor(error: BaseException) -> bool:
    """Tell whether obstore raised it; its panics are no Exceptions, all the more a reason."""
    ours = isinstance(error, DeltaSqlError)
    return not ours and (isinstance(error, tuple(KINDS)) or is_panic(error))


def is_panic(error: BaseException) -> bool:
    """Tell whether the Rust side of obstore gave up."""
    return type(error).__name__ == "PanicException"


def translate(error: BaseException, doing: str, key: str, uri: str) -> DeltaSqlError:
    """Return our error for what went wrong in an open, create, write, read, list or delete."""
    text = str(error)
    status = _status(text)
    kind = _kind(error, text, status)
    where = repr(key) if key else uri
    if doing == "open":
        return ConfigError(f"The storage options for {uri} do not fit: {_why_closed(error)}.")
    kind = _in_context(kind, error, doing, status)
    reason = _reason(kind, text, status)
    advice = None
    if kind is AccessDeniedError and _NO_RIGHT.search(text):
        advice = f"The credentials lack the right to {doing} objects there; {_POLICIES}"
    elif _PLAIN_HTTP.search(text):
        advice = "Set the storage option allow_http=true, or give an https endpoint."
    message = f"Could not {doing} {where} in {uri}: {reason}."
    return kind(message, hint=advice, key=key, status=status)


def clean_cause(error: BaseException, secrets: Iterable[str]) -> BaseException:
    """Return the error itself, or a copy without the secrets where its text holds one."""
    text = str(error)
    found = [secret for secret in secrets if secret in text]
    if not found:
        return error
    for secret in sorted(found, key=len, reverse=True):
        text = text.replace(secret, "***")
    return RuntimeError(f"{type(error).__name__}: {text}")


def _kind(error: BaseException, text: str, status: int | None) -> type[DeltaSqlError]:
    if is_panic(error):
        return StorageUnavailableError
    kind = next((ours for theirs, ours in KINDS.items() if isinstance(error, theirs)), StorageError)
    if _BAD_IDENTITY.search(text) or _NO_GRANT.search(text) or _has_no_identity(text, status):
        return AccessDeniedError
    if _NO_BUCKET.search(text) or _PLAIN_HTTP.search(text):
        return StorageError
    if kind is StorageUnavailableError and (status in _REFUSED or _NO_RIGHT.search(text)):
        return AccessDeniedError
    return kind


def _has_no_identity(text: str, status: int | None) -> bool:
    asked_in_vain = status in {_MISSING, *_REFUSED}
    return asked_in_vain and _ASKED_FOR_CREDENTIALS.search(text) is not None


def _in_context(
    kind: type[DeltaSqlError], error: BaseException, doing: str, status: int | None
) -> type[DeltaSqlError]:
    """Adjust what an answer means to what was asked."""
    is_missing = kind is ObjectNotFoundError or (
        kind is StorageUnavailableError and status == _MISSING
    )
    if doing in _CHANGES | {"list"} and is_missing:
        return StorageError  # the bucket itself is missing
    if doing != "create" and kind is ObjectExistsError:
        return StorageUnavailableError  # a 409: something else is going on there; try again
    if doing == "create" and isinstance(error, (vendor.NotSupportedError, NotImplementedError)):
        return UnsafeStoreError
    return kind


def _reason(kind: type[DeltaSqlError], text: str, status: int | None) -> str:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if status == _MISSING and not _ASKED_FOR_CREDENTIALS.search(text):
        return "the bucket or container does not exist"
    if _ASKED_FOR_CREDENTIALS.search(text) and not _NO_GRANT.search(text):
        return "no credentials were given, and none could be had from this machine's identity"
    if kind is AccessDeniedError:
        return _why_denied(text, status)
    if status is not None:
        return f"the store answered with status {status}"
    return next((reason for sign, reason in _REASONS if sign.search(text)), "an unnamed failure")


def _why_denied(text: str, status: int | None) -> str:
    if _EXPIRED.search(text):
        return "the credentials have expired"
    if _NO_GRANT.search(text):
        return "the credentials are not accepted: they are wrong, have expired or were revoked"
    if status == _UNAUTHENTICATED or _WRONG_IDENTITY.search(text):
        return f"the credentials are not accepted: they are wrong or have expired (status {status})"
    return f"access was denied (status {status})" if status else "access was denied"


def _status(text: str) -> int | None:
    if (
        "source: StartTooLarge {" in text
    ):  # said by obstore itself where the server answered leniently
        return RANGE_NOT_SATISFIABLE
    match = _STATUS.search(text)
    return int(match[1]) if match else None


def _why_closed(error: BaseException) -> str:
    if isinstance(error, vendor.UnknownConfigurationKeyError):
        return "the store does not know one of the names"
    if is_panic(error):
        return "the storage library could not use them"
    return "a value is missing or malformed"
