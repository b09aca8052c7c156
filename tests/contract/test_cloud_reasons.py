"""What a failure of Azure and Google Cloud Storage is called, by the library's real texts."""

import base64
import hashlib
import hmac
import json
from urllib.parse import urlencode

import pytest

import servers
from contract.test_store_reasons import CALLS, server
from deltasql.errors import AccessDeniedError, StorageError, StorageUnavailableError
from deltasql.storage.resolve import open_store

KINDS = ("azure", "gcs")
NOWHERE = "http://127.0.0.1:9"
WRONG_KEY = base64.b64encode(b"x" * 64).decode()
NOT_ACCEPTED = "the credentials are not accepted: they are wrong"


def open_at(kind, endpoint, bucket=servers.BUCKET, without=(), **more):
    """Open a store of the kind at a server, with some options left out or others in their place."""
    options = getattr(servers, f"{kind}_options")(endpoint)
    options = {key: value for key, value in options.items() if key not in without}
    return open_store(f"{'az' if kind == 'azure' else 'gs'}://{bucket}/t", options | more)


@pytest.fixture
def endpoint_of(request):
    """The address of a real server of a kind."""
    return lambda kind: request.getfixturevalue(f"{kind}_server").endpoint


def refused(call, store, error, reason):
    with pytest.raises(error, match=reason) as caught:
        CALLS[call](store)
    assert "unnamed" not in caught.value.message
    assert "canary" not in str(caught.value) + caught.value.advice
    return caught.value


@pytest.mark.parametrize("call", list(CALLS))
@pytest.mark.parametrize("kind", KINDS)
def test_plain_http_without_the_option_is_told_by_the_option(endpoint_of, kind, call):
    store = open_at(kind, endpoint_of(kind), without=["allow_http"])
    error = refused(call, store, StorageError, "plain http needs the option allow_http=true")
    assert not error.retryable
    assert "allow_http=true" in error.advice


@pytest.mark.parametrize("call", list(CALLS))
@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_connection_is_told(kind, call):
    refused(call, open_at(kind, NOWHERE), StorageUnavailableError, "the connection was refused")


@pytest.mark.parametrize("call", list(CALLS))
def test_a_container_that_is_not_there_is_told(azure_server, call):
    store = open_at("azure", azure_server.endpoint, bucket="no-such-container")
    error = refused(call, store, StorageError, "the bucket or container does not exist")
    assert not error.retryable


@pytest.mark.parametrize("call", ["put", "create", "data file"])
def test_a_bucket_of_google_that_is_not_there_is_told(gcs_server, call):
    store = open_at("gcs", gcs_server.endpoint, bucket="no-such-bucket")
    error = refused(call, store, StorageError, "the bucket or container does not exist")
    assert not error.retryable


@pytest.mark.parametrize("call", list(CALLS))
def test_google_s_own_words_for_a_missing_bucket_are_understood(call):
    body = b"<Error><Code>NoSuchBucket</Code><Message>canary</Message></Error>"
    with server([(404, body)]) as (endpoint, _):
        error = refused(call, open_at("gcs", endpoint), StorageError, "bucket .* does not exist")
    assert not error.retryable


@pytest.mark.parametrize("call", list(CALLS))
@pytest.mark.parametrize(
    "wrong", [{"azure_storage_account_key": WRONG_KEY}, {"azure_storage_account_name": "nobody"}]
)
def test_a_wrong_key_or_account_of_azure_is_told(azure_server, call, wrong):
    store = open_at("azure", azure_server.endpoint, **wrong)
    refused(call, store, AccessDeniedError, NOT_ACCEPTED)


def expired_signature():
    """Return a signature for the whole container, as Azure specifies it, that has expired."""
    end, version = "2020-01-01T00:00:00Z", "2021-08-06"
    resource = f"/blob/{servers.AZURE_ACCOUNT}/{servers.BUCKET}"
    lines = ["rcwdl", "", end, resource, "", "", "", version, "c", "", "", *[""] * 5]
    key = base64.b64decode(servers.AZURE_KEY)
    signed = base64.b64encode(hmac.digest(key, "\n".join(lines).encode(), hashlib.sha256))
    return urlencode({"sv": version, "sr": "c", "sp": "rcwdl", "se": end, "sig": signed.decode()})


@pytest.mark.parametrize("call", list(CALLS))
def test_an_expired_signature_of_azure_is_told(azure_server, call):
    store = open_at(
        "azure",
        azure_server.endpoint,
        without=["azure_storage_account_key"],
        azure_storage_sas_token=expired_signature(),
    )
    refused(call, store, AccessDeniedError, f"{NOT_ACCEPTED} or have expired")


@pytest.mark.parametrize("call", list(CALLS))
def test_azure_s_own_words_for_an_expired_signature_are_understood(call):
    detail = "Signature not valid in the specified time frame: canary"
    body = f"<Error><Code>AuthenticationFailed</Code><Detail>{detail}</Detail></Error>".encode()
    with server([(403, body)]) as (endpoint, _):
        refused(call, open_at("azure", endpoint), AccessDeniedError, "credentials have expired")


@pytest.mark.parametrize("call", list(CALLS))
@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (401, "<Error><Code>AuthenticationRequired</Code></Error>", NOT_ACCEPTED),
        (401, "", NOT_ACCEPTED),
        (403, "<Error><Code>SignatureDoesNotMatch</Code></Error>", NOT_ACCEPTED),
        (403, "<Error><Code>AccessDenied</Code></Error>", r"access was denied \(status 403\)"),
        (400, json.dumps({"error": "invalid_grant", "error_description": "canary"}), "revoked"),
    ],
)
def test_credentials_that_google_refuses_are_told(call, status, body, reason):
    with server([(status, body.encode())]) as (endpoint, _):
        refused(call, open_at("gcs", endpoint), AccessDeniedError, reason)
