"""The object stores and the proxy that tests start, each on the loopback and with its own files.

Every function returns a running server or raises `Unavailable` with the reason.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import shutil
import sys
from email.utils import formatdate
from pathlib import Path

from server_process import TOOLS, Server, Unavailable, free_port, start, tool

__all__ = ["Unavailable"]

BUCKET = "tables"
ACCESS, SECRET = "testkey1", "testsecret1"
# the account that every Azurite has, published with it
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

# Whatever is not for this machine goes to a port where nobody listens: without credentials that
# suit it, a client would ask the cloud's metadata service for some, and a test must never do that.
LOOPBACK_ONLY = {
    "allow_http": "true",
    "proxy_url": "http://127.0.0.1:9",
    "proxy_excludes": "127.0.0.1",
}


def start_s3() -> Server:
    """Start versitygw, a real S3 server with atomic conditional writes."""
    port = free_port()
    # without --keep-alive a refused upload is a connection reset instead of an answer
    words = f"--keep-alive --quiet --access {ACCESS} --secret {SECRET} --region us-east-1"
    words += f" --port 127.0.0.1:{port} posix {{files}}"
    server = start([tool("versitygw"), *words.split()], port)
    (server.files / BUCKET).mkdir()
    return server


def start_careless_s3() -> Server:
    """Start rclone's S3 server, which ignores conditions: the store that must be found out."""
    program = Path(sys.executable).parent / "rclone"
    if not program.exists():
        raise Unavailable("rclone is not installed (make setup)")
    port = free_port()
    words = f"serve s3 --addr 127.0.0.1:{port} --auth-key {ACCESS},{SECRET} --config /dev/null"
    server = start([program, *words.split(), "--vfs-cache-mode", "off", "{files}"], port)
    (server.files / BUCKET).mkdir()
    return server


def s3_options(endpoint: str, timeout: str = "20s") -> dict[str, str]:
    """Return the storage options for one of our S3 servers."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "timeout": timeout,
        **LOOPBACK_ONLY,
    }


def start_azure() -> Server:
    """Start Azurite with an empty container."""
    node = shutil.which("node")
    script = TOOLS / "azurite/node_modules/azurite/dist/src/blob/main.js"
    if node is None:
        raise Unavailable("there is no node to run azurite")
    if not script.exists():
        raise Unavailable("azurite is not installed (make servers)")
    port = free_port()
    words = f"--silent --blobHost 127.0.0.1 --blobPort {port} --inMemoryPersistence"
    words += " --skipApiVersionCheck --disableTelemetry"
    server = start([node, script, *words.split()], port)
    _create_container(port)
    return server


def azure_options(endpoint: str) -> dict[str, str]:
    """Return the storage options for our Azurite."""
    return {
        "azure_storage_account_name": AZURE_ACCOUNT,
        "azure_storage_account_key": AZURE_KEY,
        "azure_storage_endpoint": f"{endpoint}/{AZURE_ACCOUNT}",
        "timeout": "20s",
        **LOOPBACK_ONLY,
    }


def start_gcs() -> Server:
    """Start fake-gcs-server behind the XML face that obstore needs."""
    fake_port, port = free_port(), free_port()
    host = f"127.0.0.1:{fake_port}"
    words = f"-scheme http -host 127.0.0.1 -port {fake_port} -backend memory -log-level warn"
    # it answers only to the name that requests carry
    words += f" -public-host {host} -external-url http://{host}"
    fake = start([tool("fake-gcs-server"), *words.split()], fake_port)
    body = json.dumps({"name": BUCKET}).encode()
    _request(
        fake_port, "POST", "/storage/v1/b?project=p", body, {"Content-Type": "application/json"}
    )
    face_script = Path(__file__).with_name("gcs_face.py")
    try:
        face = start([sys.executable, face_script, str(port), str(fake_port)], port)
    except Unavailable:
        fake.stop()
        raise
    face.parts = (fake,)
    return face


def gcs_options(endpoint: str) -> dict[str, str]:
    """Return the storage options for our Google Cloud Storage."""
    # not base_url and skip_signature: with these, a put still asks for a token
    account = {"gcs_base_url": endpoint, "disable_oauth": True}
    account |= {"client_email": "", "private_key": "", "private_key_id": ""}
    return {
        "google_service_account_key": json.dumps(account),
        "timeout": "20s",
        **LOOPBACK_ONLY,
    }


def start_toxiproxy() -> Server:
    """Start toxiproxy; `Toxiproxy` in toxics.py drives it."""
    port = free_port()
    return start([tool("toxiproxy-server"), "-host", "127.0.0.1", "-port", str(port)], port)


def _create_container(port: int) -> None:
    date = formatdate(usegmt=True)
    canonical = f"x-ms-date:{date}\nx-ms-version:2021-08-06\n"
    resource = f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{BUCKET}\nrestype:container"
    text = "PUT" + "\n" * 12 + canonical + resource
    digest = hmac.digest(base64.b64decode(AZURE_KEY), text.encode(), hashlib.sha256)
    headers = {
        "x-ms-date": date,
        "x-ms-version": "2021-08-06",
        "Content-Length": "0",
        "Authorization": f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(digest).decode()}",
    }
    _request(port, "PUT", f"/{AZURE_ACCOUNT}/{BUCKET}?restype=container", b"", headers)


def _request(port: int, method: str, path: str, body: bytes, headers: dict[str, str]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status >= 300:
            raise Unavailable(f"{method} {path} was answered with {answer.status}")
    finally:
        connection.close()
