"""The application at work on a request that is guarded."""

from __future__ import annotations

import asyncio
from typing import Any, Awaitable, Callable, MutableMapping

from ._response import Response, Send

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OWN = {b"connection", b"content-length", b"content-type", b"date", b"keep-alive", b"transfer-encoding", b"trailer", b"upgrade"}


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
