"""Options for encryption in the store reach the wire, for everything that deltasql writes."""

import base64
import hashlib

import pytest

import deltasql
import servers
from builders import SCHEMA, ids, rows
from deltasql.errors import StorageUnavailableError
from deltasql.settings import MirrorSettings, Settings
from deltasql.storage.resolve import open_store
from deltasql.testing import inspect
from fault_proxy import FaultProxy

KEY = base64.b64encode(hashlib.sha256(b"customer").digest()).decode()
SSE = "x-amz-server-side-encryption"
OWN = f"{SSE}-customer"
LATER = Settings(mirror=MirrorSettings(mode="worker"))
pytestmark = pytest.mark.req("R58")

OPTIONS = {
    "sse_s3": ({"aws_server_side_encryption": "AES256"}, {SSE: "AES256"}),
    "sse_kms": (
        {
            "AWS_SERVER_SIDE_ENCRYPTION": "aws:kms",
            "AWS_SSE_KMS_KEY_ID": "arn:aws:kms:eu-central-1:1:key/7",
            "AWS_SSE_BUCKET_KEY_ENABLED": "true",
        },
        {
            SSE: "aws:kms",
            f"{SSE}-aws-kms-key-id": "arn:aws:kms:eu-central-1:1:key/7",
            f"{SSE}-bucket-key-enabled": "true",
        },
    ),
    "dsse_kms": (
        {"server_side_encryption": "aws:kms:dsse", "sse_kms_key_id": "7"},
        {SSE: "aws:kms:dsse", f"{SSE}-aws-kms-key-id": "7"},
    ),
    "customer_key": (
        {"aws_server_side_encryption": "sse-c", "aws_sse_customer_key_base64": KEY},
        {f"{OWN}-algorithm": "AES256", f"{OWN}-key": KEY},
    ),
}


def puts(proxy: FaultProxy) -> dict[str, dict[str, str]]:
    """What was written, by the kind of object, with its headers; parts follow their upload."""
    found = {}
    for method, path, headers in proxy.headers:
        begins_upload = method == "POST" and path.endswith("?uploads=")
        if (method == "PUT" and "partNumber" not in path) or begins_upload:
            found[path.partition("?")[0].rpartition("/")[2]] = headers
    return found


def one(found: dict[str, dict[str, str]], sign: str) -> dict[str, str]:
    return next(headers for name, headers in found.items() if sign in name)


@pytest.mark.parametrize("kind", list(OPTIONS))
def test_every_object_is_written_with_the_encryption_that_was_asked_for(
    kind, fault_proxy, fresh_name, tmp_path
):
    given, wanted = OPTIONS[kind]
    options = servers.s3_options(fault_proxy.endpoint) | given
    uri = f"deltasql://sqlite/{tmp_path}/catalog.db"
    location = f"s3://{servers.BUCKET}/{fresh_name}"
    with deltasql.connect(uri, settings=LATER, storage_options=options) as catalog:
        table = catalog.create_table("orders", location=location, schema=SCHEMA)
        table.append(rows(1, 2))
        catalog.mirror.run_once()
        catalog.mirror.checkpoint("orders")
        assert ids(table) == [1, 2]
        assert KEY not in repr(inspect(catalog).session) + repr(
            inspect(catalog).connection.stores._opened
        )
    found = puts(fault_proxy)
    for sign in ("part-", f"{1:020d}.json", ".checkpoint.parquet", "_last_checkpoint", "_deltasql"):
        headers = one(found, sign)
        assert headers.items() >= wanted.items(), sign
    assert all(headers.items() >= wanted.items() for headers in found.values())


def test_a_customer_s_key_goes_with_every_part_and_every_read(fault_proxy, fresh_name):
    given, wanted = OPTIONS["customer_key"]
    options = servers.s3_options(fault_proxy.endpoint) | given
    store = open_store(f"s3://{servers.BUCKET}/{fresh_name}", options)
    with store.open_output("large.parquet") as file:
        file.write(b"x" * (12 << 20))
    store.get_range("large.parquet", 5, 3)
    store.head("large.parquet")
    asked = [
        headers
        for method, path, headers in fault_proxy.headers
        if "partNumber" in path or method in {"GET", "HEAD"}
    ]
    assert len(asked) >= 4
    assert all(headers.items() >= wanted.items() for headers in asked)


def test_without_options_the_bucket_decides(fault_proxy, fresh_name):
    store = open_store(
        f"s3://{servers.BUCKET}/{fresh_name}", servers.s3_options(fault_proxy.endpoint)
    )
    store.put_if_absent("a", b"x")
    assert not [name for _, _, h in fault_proxy.headers for name in h if name.startswith(SSE)]


def test_azure_takes_a_customer_s_key_too(azure_server, fresh_name):
    proxy = FaultProxy(azure_server.port)
    try:
        options = servers.azure_options(proxy.endpoint) | {"azure_encryption_key": KEY}
        store = open_store(f"az://{servers.BUCKET}/{fresh_name}", options)
        with pytest.raises(StorageUnavailableError):  # Azurite has no encryption, and says so
            store.put_if_absent("a", b"x")
        (headers,) = [h for method, _, h in proxy.headers if method == "PUT"]
    finally:
        proxy.close()
    assert headers["x-ms-encryption-key"] == KEY
    assert headers["x-ms-encryption-algorithm"] == "AES256"
