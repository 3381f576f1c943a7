"""What the guard for requests answers, the application that makes it, and what a request says of that."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Any, Awaitable, Callable, MutableMapping, Sequence

from ._text import dump

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OWN = {b"connection", b"content-length", b"content-type", b"date", b"keep-alive", b"transfer-encoding", b"trailer", b"upgrade"}


@dataclass
class Response:
    status: int
    content_type: str
    headers: list[list[str]]
    body: bytes
    problem: str | None = None

    async def send(self, send: Send) -> None:
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers]
        if self.content_type:
            headers.append((b"content-type", self.content_type.encode("latin-1")))
        if self.status not in (204, 304):
            headers.append((b"content-length", str(len(self.body)).encode()))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def problem(name: str | None, status: int, title: str, detail: str) -> Response:
    body = dump({"type": f"/problems/{name}" if name else "about:blank", "title": title, "status": status, "detail": detail})
    return Response(status, "application/problem+json", [["Retry-After", "1"]] if status == 503 else [], body, name)


def wait_preference(headers: Sequence[tuple[bytes, bytes]]) -> int | None:
    for name, value in headers:
        if name.lower() == b"prefer" and (found := re.search(rb'(?:^|,)\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:[;,]|$)', value, re.IGNORECASE)):
            return int(found[1])
    return None


class TooSlow(Exception):
    pass


class Run:
    """What the application sends is kept; with its last byte it waits for finish(), so that its background tasks follow the response."""

    def __init__(self, app: App, scope: Scope, body: bytes) -> None:
        self._sent: list[MutableMapping[str, Any]] = []
        self._bodies = [{"type": "http.request", "body": body, "more_body": False}]
        self._responded, self._may_go_on = asyncio.get_running_loop().create_future(), asyncio.Event()
        self._task = asyncio.ensure_future(app({**scope, "extensions": {}}, self._receive, self._send))

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._bodies:
            return self._bodies.pop()
        await self._may_go_on.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        self._sent.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body") and not self._responded.done():
            self._responded.set_result(None)
            await self._may_go_on.wait()

    async def response(self, seconds: float) -> Response:
        """Raises what the application raises, and TooSlow."""
        await asyncio.wait({self._task, self._responded}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not self._responded.done():
            if not self._task.done():
                raise TooSlow
            self._task.result()
            raise RuntimeError("the application ended without a response")
        head = next(m for m in self._sent if m["type"] == "http.response.start")
        types = [value.decode("latin-1") for name, value in head["headers"] if name.lower() == b"content-type"]
        headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in head["headers"] if name.lower() not in OWN]
        return Response(head["status"], types[0] if types else "", headers, b"".join(m.get("body", b"") for m in self._sent))

    async def finish(self) -> None:
        """Once the response is out. Raises what the application raised."""
        self._may_go_on.set()
        await self._task

    async def cancel(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task}, timeout=1)
