"""Every error of obstore has a kind of ours."""

from __future__ import annotations

import pytest
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
from deltasql.storage.cloud_errors import KINDS, clean_cause, is_vendor, translate

OPERATIONS = ["create", "write", "read", "list", "delete"]


class PanicException(BaseException):
    """As obstore's panics look: no Exception."""


def vendor_classes() -> list[type[BaseException]]:
    found = [getattr(vendor, name) for name in dir(vendor) if not name.startswith("_")]
    return [one for one in found if isinstance(one, type) and issubclass(one, BaseException)]


def test_no_exception_of_obstore_is_forgotten() -> None:
    assert vendor_classes()
    assert [kind.__name__ for kind in vendor_classes() if kind not in KINDS] == []


@pytest.mark.parametrize("theirs", [*vendor_classes(), PanicException, OSError, FileNotFoundError])
@pytest.mark.parametrize("doing", ["open", *OPERATIONS])
def test_every_error_becomes_one_sentence_of_ours(theirs, doing) -> None:
    error = theirs("https://user:canary@host/x?sig=canary status: 503\nDebug source: canary")
    assert is_vendor(error)
    ours = translate(error, doing, "k/ey", "s3://bucket/t")
    assert isinstance(ours, DeltaSqlError)
    assert "canary" not in str(ours)
    assert "\n" not in str(ours)
    assert "k/ey" in str(ours) or doing == "open"
    assert "s3://bucket/t" in str(ours)


def test_other_errors_are_not_the_vendors() -> None:
    for error in (
        KeyboardInterrupt(),
        KeyError("k"),
        TypeError(),
        ConfigError("ours, a ValueError"),
    ):
        assert not is_vendor(error)


@pytest.mark.parametrize(
    ("error", "doing", "kind"),
    [
        (vendor.AlreadyExistsError("status: 412"), "create", ObjectExistsError),
        (vendor.AlreadyExistsError("status: 409"), "write", StorageUnavailableError),
        (vendor.PreconditionError(""), "create", ObjectExistsError),
        (FileNotFoundError("gone"), "read", ObjectNotFoundError),
        (FileNotFoundError("<Code>NoSuchBucket</Code> status: 404"), "read", StorageError),
        (FileNotFoundError("status: 404"), "create", StorageError),
        (vendor.GenericError("status: 404"), "list", StorageError),
        (vendor.GenericError("status: 503"), "create", StorageUnavailableError),
        (vendor.GenericError("status: 403"), "read", AccessDeniedError),
        (vendor.GenericError("<Code>ExpiredToken</Code> status: 400"), "read", AccessDeniedError),
        (
            vendor.GenericError("Error performing token request: status: 404"),
            "create",
            AccessDeniedError,
        ),
        (
            vendor.GenericError("Error performing token request: kind: Connect"),
            "read",
            StorageUnavailableError,
        ),
        (
            FileNotFoundError("at b/token request/oauth2/x: status: 404"),
            "read",
            ObjectNotFoundError,
        ),
        (
            vendor.GenericError("PUT http://169.254.169.254/x status: 403"),
            "read",
            AccessDeniedError,
        ),
        (vendor.PermissionDeniedError(""), "delete", AccessDeniedError),
        (vendor.UnauthenticatedError(""), "list", AccessDeniedError),
        (vendor.NotSupportedError(""), "create", UnsafeStoreError),
        (NotImplementedError(""), "create", UnsafeStoreError),
        (NotImplementedError(""), "read", StorageError),
        (ValueError("Could not parse path"), "read", UnsafePathError),
        (PanicException("boom"), "create", StorageUnavailableError),
        (PanicException("boom"), "open", ConfigError),
    ],
)
def test_the_kind_follows_from_what_was_asked(error, doing, kind) -> None:
    assert type(translate(error, doing, "k", "s3://b")) is kind


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("inner: Http { kind: Timeout }", "no answer in time"),
        ("kind: Connect, tcp connect error", "no connection"),
        ("dns error: kind: Connect", "the host name is unknown"),
        ("kind: Request, hyper IncompleteMessage", "connection lost"),
        ("Server returned non-2xx status code: 503 Slow Down", "status 503"),
        ("URL scheme is not allowed", "allow_http=true"),
        ("something new", "an unnamed failure"),
    ],
)
def test_the_reason_is_read_out_of_the_text(text: str, reason: str) -> None:
    assert reason in str(translate(vendor.GenericError(text), "read", "k", "s3://b"))


@pytest.mark.req("R96")
def test_a_cause_with_a_secret_is_replaced_by_a_clean_copy() -> None:
    harmless = vendor.GenericError("status: 503")
    assert clean_cause(harmless, {"canary"}) is harmless
    clean = clean_cause(
        vendor.GenericError("the key canary-key and canary"), {"canary", "canary-key"}
    )
    assert str(clean) == "GenericError: the key *** and ***"


@pytest.mark.parametrize("code", ["AccessDenied", "403"])
def test_a_refused_delete_is_told_by_its_own_word(code) -> None:
    """S3 and Azure answer a delete of many keys with 200, and a word for each key."""
    text = f'Generic error: failed\n\nDebug source:\n    source: X {{\n        code: "{code}",\n'
    ours = translate(vendor.GenericError(text), "delete", "k", "s3://bucket/t")
    assert isinstance(ours, AccessDeniedError)
    assert "lack the right to delete objects" in ours.advice
    key = f'a code: "{code}", b'
    busy = translate(vendor.GenericError(f'code: "SlowDown" {key}'), "delete", "k", "s3://bucket/t")
    assert isinstance(busy, StorageUnavailableError)
