"""Azure: shared access signatures with the permissions that the guide names, on Azurite.

Azurite knows no roles; a signature's permissions are the rights that it does check.
"""

import base64
import hashlib
import hmac
from urllib.parse import urlencode

import pytest

import deltasql
import servers
from builders import SCHEMA, ids, rows
from deltasql.errors import AccessDeniedError
from deltasql.protocol.log_names import commit_key
from deltasql.settings import MirrorSettings, Settings
from deltasql.storage.resolve import open_store
from deltasql.testing.invariants import check_invariants

PERMISSIONS = {"reader": "rl", "writer": "rcwl", "worker": "rcwl", "operator": "rcwdl"}
LATER = Settings(mirror=MirrorSettings(mode="worker"))
_VERSION = "2021-08-06"
_EXPIRY = "2099-01-01T00:00:00Z"
pytestmark = pytest.mark.req("R36")


def signature(permissions: str) -> str:
    """Return a signature for the whole container, as Azure specifies it."""
    resource = f"/blob/{servers.AZURE_ACCOUNT}/{servers.BUCKET}"
    # start, identifier, address, protocol, snapshot, scope and five response headers are empty
    lines = [permissions, "", _EXPIRY, resource, "", "", "", _VERSION, "c", "", "", *[""] * 5]
    key = base64.b64decode(servers.AZURE_KEY)
    signed = base64.b64encode(hmac.digest(key, "\n".join(lines).encode(), hashlib.sha256))
    words = {"sv": _VERSION, "sr": "c", "sp": permissions, "se": _EXPIRY, "sig": signed.decode()}
    return urlencode(words)


@pytest.fixture
def options(azure_server):
    plain = servers.azure_options(azure_server.endpoint)
    found = {"root": plain}
    for role, permissions in PERMISSIONS.items():
        kept = {k: v for k, v in plain.items() if k != "azure_storage_account_key"}
        found[role] = kept | {"azure_storage_sas_token": signature(permissions)}
    return found


def test_a_worker_without_delete_rights_works_on_azure(options, fresh_name, tmp_path):
    uri = f"deltasql://sqlite/{tmp_path}/catalog.db"
    location = f"az://{servers.BUCKET}/{fresh_name}"
    with deltasql.connect(uri, storage_options=options["operator"]) as catalog:
        catalog.create_table("orders", location=location, schema=SCHEMA)
    with deltasql.connect(uri, storage_options=options["writer"], settings=LATER) as catalog:
        for number in range(1, 12):
            catalog.table("orders").append(rows(number))
    with deltasql.connect(uri, storage_options=options["worker"]) as catalog:
        assert catalog.mirror.run_once().mirrored == 11
        open_store(location, options["root"]).delete(commit_key(5))
        catalog.mirror.repair("orders")
        assert catalog.mirror.checkpoint("orders") == 11
        check_invariants(catalog, "orders")
    with deltasql.connect(uri, storage_options=options["reader"]) as catalog:
        assert ids(catalog.table("orders")) == list(range(1, 12))
        assert catalog.mirror.verify("orders") == []


@pytest.mark.parametrize("role", ["reader", "writer", "worker"])
def test_only_an_operator_deletes_on_azure(role, options, fresh_name):
    location = f"az://{servers.BUCKET}/{fresh_name}"
    open_store(location, options["root"]).put("a", b"x")
    with pytest.raises(AccessDeniedError, match="Could not delete 'a'") as error:
        open_store(location, options[role]).delete("a")
    assert "lack the right to delete objects" in error.value.advice
    open_store(location, options["operator"]).delete("a")


def test_a_reader_puts_nothing_on_azure(options, fresh_name):
    store = open_store(f"az://{servers.BUCKET}/{fresh_name}", options["reader"])
    with pytest.raises(AccessDeniedError, match="Could not create 'a'"):
        store.put_if_absent("a", b"x")
    with pytest.raises(AccessDeniedError, match="Could not write 'a'"):
        store.put("a", b"x")
