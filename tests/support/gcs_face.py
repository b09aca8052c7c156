"""The XML face that obstore's Google client needs, in front of fake-gcs-server.

fake-gcs-server reads and lists by XML but writes only by JSON; this translates the writes and
passes the rest. Conditions, generations and atomicity stay its own.
usage: gcs_face.py LISTEN_PORT FAKE_GCS_PORT
"""

from __future__ import annotations

import hashlib
import http.client
import json
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

_PASSED_DOWN = {"etag", "x-goog-generation", "last-modified", "content-type", "content-range"}
_PASSED_UP = {"range", "if-match", "if-none-match"}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Upstream:
    """fake-gcs-server, one kept connection per thread."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._local = threading.local()

    def call(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        try:
            return self._once(method, path, body, headers)
        except (http.client.RemoteDisconnected, ConnectionError):
            self._local.connection = None
            if method not in {"GET", "HEAD"}:  # a write may have happened: the client must learn
                raise
            return self._once(method, path, body, headers)

    def _once(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self._port)
            self._local.connection = connection
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body or None, named)
        answer = connection.getresponse()
        lowered = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, lowered, answer.read())


class Face(BaseHTTPRequestHandler):
    """One request of obstore's client."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    upstream: Upstream
    uploads: dict[str, dict[int, bytes]]

    def do_PUT(self) -> None:
        body = self._body()
        bucket, key, query = self._target()
        if "uploadId" in query:
            self.uploads[query["uploadId"]][int(query["partNumber"])] = body
            digest = hashlib.md5(body).hexdigest()
            self._reply(200, headers={"ETag": f'"{digest}"'})
            return
        answer = self._store(bucket, key, body)
        if answer.status != 200:
            self._reply(answer.status, answer.body)
            return
        stored = json.loads(answer.body)
        tag = stored["etag"].strip('"')
        headers = {"ETag": f'"{tag}"', "x-goog-generation": stored["generation"]}
        self._reply(200, headers=headers)

    def do_POST(self) -> None:
        body = self._body()
        bucket, key, query = self._target()
        if "uploads" in query:
            self._begin_upload(bucket, key)
        elif "uploadId" in query:
            self._finish_upload(bucket, key, query["uploadId"])
        else:
            kind = self.headers.get("Content-Type") or ""
            answer = self.upstream.call("POST", self.path, body, Content_Type=kind)
            self._reply(answer.status, answer.body)

    def do_DELETE(self) -> None:
        bucket, key, query = self._target()
        if "uploadId" in query:
            self.uploads.pop(query["uploadId"], None)
            self._reply(204)
            return
        answer = self.upstream.call("DELETE", f"/storage/v1/b/{bucket}/o/{quote(key, safe='')}")
        done = answer.status in {200, 204}
        self._reply(204 if done else answer.status, b"" if done else answer.body)

    def do_GET(self) -> None:
        asked = {name: text for name, text in self.headers.items() if name.lower() in _PASSED_UP}
        answer = self.upstream.call(self.command, self.path, **asked)
        kept = {name: text for name, text in answer.headers.items() if name in _PASSED_DOWN}
        if self.command == "HEAD":
            self._reply(answer.status, headers=kept, length=answer.headers.get("content-length"))
        else:
            self._reply(answer.status, answer.body, kept)

    do_HEAD = do_GET  # noqa: N815 (the base class looks for this name)

    def log_message(self, *args: object) -> None:
        pass

    def _begin_upload(self, bucket: str, key: str) -> None:
        number = uuid.uuid4().hex
        self.uploads[number] = {}
        inner = f"<Bucket>{bucket}</Bucket><Key>{escape(key)}</Key><UploadId>{number}</UploadId>"
        tag = "InitiateMultipartUploadResult"
        self._reply(200, f"<{tag}>{inner}</{tag}>".encode())

    def _finish_upload(self, bucket: str, key: str, number: str) -> None:
        parts = self.uploads.pop(number)
        answer = self._store(bucket, key, b"".join(parts[part] for part in sorted(parts)))
        if answer.status != 200:
            self._reply(answer.status, answer.body)
            return
        stored = json.loads(answer.body)
        etag = escape(stored["etag"].strip('"'))
        inner = f'<Bucket>{bucket}</Bucket><Key>{escape(key)}</Key><ETag>"{etag}"</ETag>'
        tag = "CompleteMultipartUploadResult"
        headers = {"x-goog-generation": stored["generation"]}
        self._reply(200, f"<{tag}>{inner}</{tag}>".encode(), headers)

    def _store(self, bucket: str, key: str, body: bytes) -> Answer:
        generation = self.headers.get("x-goog-if-generation-match")
        condition = "" if generation is None else f"&ifGenerationMatch={generation}"
        path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(key, safe='')}"
        kind = self.headers.get("Content-Type") or "application/octet-stream"
        return self.upstream.call("POST", path + condition, body, Content_Type=kind)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _target(self) -> tuple[str, str, dict[str, str]]:
        url = urlsplit(self.path)
        bucket, _, key = url.path.lstrip("/").partition("/")
        query = parse_qs(url.query, keep_blank_values=True)
        return bucket, unquote(key), {name: values[0] for name, values in query.items()}

    def _reply(
        self,
        status: int,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        length: str | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)) if length is None else length)
        self.end_headers()
        self.wfile.write(body)


class FaceServer(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


def main(listen_port: int, fake_port: int) -> None:
    Face.upstream = Upstream(fake_port)
    Face.uploads = {}
    FaceServer(("127.0.0.1", listen_port), Face).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
