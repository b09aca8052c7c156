"""An HTTP proxy that spoils single requests: any status, a lost, late or cut reply.

Rules are asked in order; the first that takes a request decides. toxiproxy spoils connections;
this picks one request of many, and can answer in the server's place.
"""

from __future__ import annotations

import asyncio
import re
import threading
from dataclasses import dataclass, field
from urllib.parse import unquote

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_HOP = re.compile(rb"\r\n(?:connection|expect): [^\r]*", re.IGNORECASE)
_BODYLESS = {204, 304}


@dataclass
class Rule:
    """What to do to which requests.

    action: "503" (any status, the server does not see the request), "drop_request",
    "lost_reply" (the server does its work, nobody hears of it), "hang:S" (the reply comes after S
    seconds), "truncate:N" (N bytes of the reply, then the end).
    """

    action: str
    method: str = ".*"
    path: str = ".*"
    count: int = 1
    hits: int = field(default=0, init=False)

    def takes(self, method: str, path: str) -> bool:
        if self.hits >= self.count:
            return False
        if not re.fullmatch(self.method, method) or not re.search(self.path, path):
            return False
        self.hits += 1
        return True


class FaultProxy:
    """Listens on `port` for the server at `upstream_port`; `seen` lists (method, path, action).

    `headers` has those of every request, by method and path, with the names in lower case.
    """

    def __init__(self, upstream_port: int) -> None:
        self._upstream = upstream_port
        self.rules: list[Rule] = []
        self.seen: list[tuple[str, str, str]] = []
        self.headers: list[tuple[str, str, dict[str, str]]] = []
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self._ready.wait()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def rule(self, action: str, method: str = ".*", path: str = ".*", count: int = 1) -> Rule:
        made = Rule(action, method, path, count)
        self.rules.append(made)
        return made

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(5)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._main())
        self._loop.close()

    async def _main(self) -> None:
        self._stopped = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port: int = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopped.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # aborted connections close in the loop's next turns

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._connection(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.transport.abort()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve one request; False ends the connection."""
        head, body = await _message(reader, has_body=True)
        method, path = (word.decode() for word in head.split(b" ", 2)[:2])
        asked = unquote(path)  # Google's client encodes all that is no letter or digit
        rule = next((rule for rule in self.rules if rule.takes(method, asked)), None)
        action, _, amount = (rule.action if rule else "pass").partition(":")
        self.seen.append((method, path, action))
        self.headers.append((method, path, _headers(head)))
        if action == "drop_request":
            return False
        if action.isdigit():
            writer.write(_injected(int(action), method))
            await writer.drain()
            return True
        reply = await self._ask(head, body, method)
        if action == "hang":
            await asyncio.sleep(float(amount))
        if action == "truncate":
            reply = reply[: int(amount)]
        if action != "lost_reply":
            writer.write(reply)
            await writer.drain()
        return action not in {"lost_reply", "truncate"}

    async def _ask(self, head: bytes, body: bytes, method: str) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        try:
            writer.write(_HOP.sub(b"", head)[:-2] + b"Connection: close\r\n\r\n" + body)
            await writer.drain()
            answer, content = await _message(reader, has_body=method != "HEAD")
        finally:
            writer.transport.abort()
        answer = _HOP.sub(b"", answer)
        if _LENGTH.search(answer) is None and b"chunked" not in answer.lower():
            answer = answer[:-2] + b"Content-Length: %d\r\n\r\n" % len(content)
        return answer + content


def _headers(head: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:] if line)
    return {name.lower(): value.strip() for name, _, value in lines}


async def _message(reader: asyncio.StreamReader, *, has_body: bool) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    is_reply = head.startswith(b"HTTP/")
    if not has_body or (is_reply and int(head.split(b" ", 2)[1]) in _BODYLESS):
        return head, b""
    if length := _LENGTH.search(head):
        return head, await reader.readexactly(int(length[1]))
    if b"transfer-encoding: chunked" in head.lower():
        return head, await _chunks(reader)
    return head, await reader.read() if is_reply else b""


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        body += line + await reader.readexactly(size + 2)
        if size == 0:
            return body


def _injected(status: int, method: str) -> bytes:
    text = b"" if method == "HEAD" else b"<Error><Code>Injected</Code></Error>"
    return b"HTTP/1.1 %d Injected\r\nContent-Length: %d\r\n\r\n" % (status, len(text)) + text
