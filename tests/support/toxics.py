"""Drive toxiproxy: a proxy in front of a port, and what spoils its bytes."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from server_process import free_port


@dataclass(frozen=True)
class ToxicProxy:
    """One proxied port."""

    api_port: int
    name: str
    port: int

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def toxic(self, kind: str, stream: str = "downstream", **attributes: int) -> Iterator[None]:
        """Spoil what passes, inside the block."""
        body = {"name": "t", "type": kind, "stream": stream, "attributes": attributes}
        call(self.api_port, "POST", f"/proxies/{self.name}/toxics", body)
        try:
            yield
        finally:
            call(self.api_port, "DELETE", f"/proxies/{self.name}/toxics/t")

    @contextmanager
    def down(self) -> Iterator[None]:
        """Refuse every connection, inside the block."""
        call(self.api_port, "POST", f"/proxies/{self.name}", {"enabled": False})
        try:
            yield
        finally:
            call(self.api_port, "POST", f"/proxies/{self.name}", {"enabled": True})


@contextmanager
def proxied(api_port: int, upstream_port: int) -> Iterator[ToxicProxy]:
    """Give a port in front of `upstream_port`, inside the block."""
    proxy = ToxicProxy(api_port, f"p{upstream_port}", free_port())
    listen, upstream = f"127.0.0.1:{proxy.port}", f"127.0.0.1:{upstream_port}"
    body = {"name": proxy.name, "listen": listen, "upstream": upstream, "enabled": True}
    call(api_port, "POST", "/proxies", body)
    try:
        yield proxy
    finally:
        call(api_port, "DELETE", f"/proxies/{proxy.name}")


def call(api_port: int, method: str, path: str, body: dict[str, Any] | None = None) -> None:
    """Ask toxiproxy's own interface."""
    connection = http.client.HTTPConnection("127.0.0.1", api_port, timeout=10)
    try:
        headers = {"User-Agent": "deltasql-tests", "Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status < 300, (method, path, answer.status, text)
    finally:
        connection.close()
